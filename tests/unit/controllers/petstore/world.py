"""Test world of the Pet reconciler: a control plane with Pets, a store, and a process that can die.

`Fate` can lose a call of the process, lose the response of a call, or end the process at a call. Store and
control plane are real, but in the process of the test. A new process has no state of an earlier process.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import random
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from msgspec import Raw

from apis.petstore.v1beta1.pet import Pet
from controllers.petstore.pet import PetOperator
from devcluster import DevCluster
from devcluster.errors import StatusError
from devcluster.http_call import ApiResponse
from devcluster.patch.json_patch import merge_patch
from devcluster.storage import Change, Key
from manager.api import Condition, ObjectKey, find_condition
from manager.cache import Cache, Informer
from manager.client import Client
from manager.kube.errors import Conflict, ConnectionLost, NotFound
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.kube.wire import WireRequest
from manager.operator.reconciler import ObjectReconciler
from manager.settings import SettingValues
from manager.telemetry.metrics import Metrics
from manager.util.yaml_text import yaml_documents
from manager_tools.testing import LocalWire
from petstore.client import PetStoreClient, Unreachable
from petstore.embedded import EmbeddedStore
from tests.support import ROOT
from tests.unit.controllers.fate import Died, Fate, FatefulWire, RecordedEvents

NAMESPACE = "default"
CREATED = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
DEFINITION = ROOT / "config/crd/bases/petstore.example.com_pets.yaml"
GROUP, PLURAL = Pet.gvk.group, Pet.plural
THOR = {"name": "Thor", "species": "dog", "birthday": "2021-04-01"}
TRON = {"name": "Tron", "species": "cat", "birthday": "2020-06-25"}


class FatefulStore:
    """Store client whose calls are fault injection points."""

    def __init__(self, client: PetStoreClient, fate: Fate) -> None:
        self._client = client
        self._fate = fate
        self.address = "the store"
        self.timeout = client.timeout

    @property
    def knows_keys(self) -> bool | None:
        return self._client.knows_keys

    async def _call(self, name: str, *arguments: Any) -> Any:
        call = getattr(self._client, name)
        return await self._fate.pass_through(name, lambda: call(*arguments), Unreachable("by fate"))

    async def add(self, pets: list[Any]) -> list[str]:
        return list(await self._call("add", pets))

    async def update(self, pets: list[Any]) -> None:
        await self._call("update", pets)

    async def delete(self, ids: list[str]) -> None:
        await self._call("delete", ids)

    async def search(self, **filters: Any) -> AsyncGenerator[Any, None]:
        async def read() -> list[Any]:
            return [pet async for pet in self._client.search(**filters)]

        for pet in await self._fate.pass_through("search", read, Unreachable("by fate")):
            yield pet


class ApiServer:
    """Pets of a control plane; the methods write as other clients, immediately and without validation."""

    def __init__(self, cluster: DevCluster) -> None:
        self.cluster = cluster
        self.storage = cluster.store
        self.metrics = Metrics()
        self.mapper = RestMapper(self.transport(LocalWire(cluster)))
        self.writes = 0
        """The number of writes by manager processes that have changed an object."""
        self.serves_pets = True
        """Whether the server knows the kind Pet; false for a moment while the CRD is replaced."""
        self.feeds: list[Feed] = []
        self._begun = self.storage.version

    def transport(self, wire: LocalWire) -> Transport:
        return Transport(wire, metrics=self.metrics, rng=random.Random(1), user_agent="test")

    def begin_anew(self) -> None:
        """Remove all Pets and all feeds, so that the next process starts with no state."""
        for feed in self.feeds:
            feed.hold_back()
        self.feeds.clear()
        for key in self.pets:
            self.storage.delete(_stored(key))
        self._begun = self.storage.version

    @property
    def pets(self) -> dict[ObjectKey, dict[str, Any]]:
        found = self.storage.select(GROUP, PLURAL)
        return {ObjectKey(each.key.namespace, each.key.name): each.decode() for each in found}

    @property
    def history(self) -> range:
        return range(self._begun, self.storage.version + 1)

    def get(self, key: ObjectKey) -> Pet:
        return Pet.decode(self.storage.get(_stored(key)).data)

    def create(self, name: str, spec: dict[str, str], **metadata: Any) -> ObjectKey:
        created = CREATED + datetime.timedelta(seconds=self.storage.version)
        pet = {
            "apiVersion": Pet.gvk.api_version,
            "kind": Pet.gvk.kind,
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": str(uuid.uuid4()),
                "generation": 1,
                "creationTimestamp": created.isoformat().replace("+00:00", "Z"),
                **metadata,
            },
            "spec": dict(spec),
        }
        key = ObjectKey(NAMESPACE, name)
        self.storage.create(_stored(key), pet)
        return key

    def edit(self, key: ObjectKey, **patch: Any) -> None:
        after = merge_patch(self.pets[key], patch)
        self.storage.update(_stored(key), after)
        if "deletionTimestamp" in after["metadata"] and not after["metadata"].get("finalizers"):
            self.storage.delete(_stored(key))

    def change(self, key: ObjectKey, **spec: str) -> None:
        generation = self.pets[key]["metadata"]["generation"]
        self.edit(key, spec=spec, metadata={"generation": generation + 1})

    def delete(self, key: ObjectKey) -> None:
        if key in self.pets:
            self.edit(key, metadata={"deletionTimestamp": "2026-01-02T00:00:00Z"})

    def vanish(self, key: ObjectKey) -> None:
        """Remove the Pet's finalizers and then the Pet itself at once, as another client does."""
        self.edit(key, metadata={"finalizers": None})
        self.delete(key)


def _stored(key: ObjectKey) -> Key:
    return Key(GROUP, PLURAL, key.namespace, key.name)


async def define_pets(cluster: DevCluster) -> None:
    """Define Pets in the cluster, without a conversion webhook."""
    (definition,) = yaml_documents(DEFINITION.read_text())
    await cluster.client.create("customresourcedefinitions.apiextensions.k8s.io", "", definition)
    await asyncio.sleep(0)  # the CRD is served after this turn of the event loop


class Feed:
    """Feed of Pet events to a cache: it delivers each change immediately, unless a test holds it back."""

    def __init__(self, server: ApiServer, pets: Informer, at: int | None) -> None:
        self._storage = server.storage
        self._sink = pets._sinks[0]
        self._end: Callable[[], object] = lambda: None
        server.feeds.append(self)
        if at is None:
            self.catch_up()
        else:
            self._list(at)

    def hold_back(self) -> None:
        """Stop the feed: the cache gets only the process's own writes."""
        self._end()
        self._end = lambda: None

    def catch_up(self) -> None:
        self._list(self._storage.version)
        self._end = self._storage.subscribe(self._notify)

    def _list(self, version: int) -> None:
        self._sink.begin_list()
        for each in self._storage.select_at(version, GROUP, PLURAL):
            self._sink.list_item(Raw(each.data))
        self._sink.finish_list(version)

    def _notify(self, change: Change) -> None:
        if change.key[:2] == (GROUP, PLURAL):
            stored = change.new or change.final
            self._sink.event("DELETED" if change.new is None else "MODIFIED", Raw(stored.data))


class PetWire(FatefulWire):
    """HTTP wire with scripted faults; it answers 404 while no Pets are served, and counts the writes."""

    def __init__(self, server: ApiServer, fate: Fate) -> None:
        super().__init__(server.cluster, fate)
        self._server = server

    async def ask(self, request: WireRequest) -> ApiResponse:
        if not self._server.serves_pets:
            raise StatusError(404, "NotFound", "the server could not find the requested resource")
        before = self._server.storage.version
        answer = await super().ask(request)
        self._server.writes += self._server.storage.version != before
        return answer

    def point(self, request: WireRequest) -> str:
        return f"patch {'status' if urlsplit(request.path).path.endswith('/status') else 'metadata'}"


class FatefulClient(Client):
    """API client whose live reads are fault injection points, like the writes of `FatefulWire`."""

    def __init__(self, transport: Transport, mapper: RestMapper, cache: Cache, fate: Fate) -> None:
        super().__init__(transport, mapper, cache, field_manager="test")
        read = self.uncached.get
        # The fault is above the transport, because the transport would repeat the read.
        self.uncached.get = lambda *of: fate.pass_through(  # type: ignore[method-assign, assignment]
            "get", partial(read, *of), ConnectionLost("by fate")
        )

    def named(self, controller: str, *, former_managers: Sequence[str] = ()) -> FatefulClient:
        return self


class Process:
    """Manager process; with `at`, its cache shows the Pets of that resource version."""

    def __init__(
        self, server: ApiServer, client: PetStoreClient, fate: Fate, *, at: int | None = None
    ) -> None:
        self.events, self.store = RecordedEvents(), FatefulStore(client, fate)
        transport, rng = server.transport(PetWire(server, fate)), random.Random(1)
        cache = Cache(transport, server.mapper, field_manager="test", metrics=server.metrics, rng=rng)
        manager: Any = SimpleNamespace(
            client=FatefulClient(transport, server.mapper, cache, fate),
            cache=cache,
            events=self.events,
            settings=SettingValues({each: each.default_value() for each in PetOperator.declared_settings}),
            metrics=server.metrics,
            rng=rng,
        )
        self.operator = PetOperator(manager)
        self.pets = self.operator.informer
        for name, function in PetOperator.indexes.items():
            self.pets.add_index(name, function)
        self.cache = Feed(server, self.pets, at)
        self.operator.use(self.store)
        self.claims = self.operator.claims
        self.availability = self.operator.availability
        self.reconcile = ObjectReconciler(self.operator).reconcile

    async def settle(self, key: ObjectKey, rounds: int = 20) -> None:
        """Reconcile until a reconcile requests no requeue."""
        for _ in range(rounds):
            try:
                if await self.reconcile(key) is None:
                    return
            except (Conflict, ConnectionLost, NotFound):
                continue
        raise AssertionError(f"{key} does not settle")

    async def settle_all(self, keys: list[ObjectKey]) -> None:
        """Reconcile all keys concurrently; when the process dies, cancel all reconciles and raise Died."""
        if not keys:
            return
        tasks = [asyncio.ensure_future(self.settle(key)) for key in keys]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class Stage:
    """An API server, a store, and manager processes with a common fault script."""

    def __init__(self, server: ApiServer, store: EmbeddedStore) -> None:
        self.store = store
        self.server = server
        self.fate = Fate()
        self.process = Process(self.server, store.client, self.fate)

    def create(self, pet: str = "thor", **more: Any) -> ObjectKey:
        spec = {field: more.pop(field, value) for field, value in THOR.items()}
        return self.server.create(pet, spec, **more)

    async def created(self, pet: str = "thor", **more: Any) -> ObjectKey:
        """Create a Pet, and reconcile it until a reconcile requests no requeue."""
        key = self.create(pet, **more)
        await self.process.settle(key)
        return key

    async def delete(self, key: ObjectKey) -> None:
        self.server.delete(key)
        await self.process.settle(key)

    def pet(self, key: ObjectKey) -> Pet:
        return self.server.get(key)

    def condition(self, key: ObjectKey, kind: str) -> Condition:
        return find_condition(self.pet(key).status.conditions, kind)

    def says(self, key: ObjectKey, kind: str) -> tuple[str, str]:
        found = self.condition(key, kind)
        return found.status, found.reason

    async def retried_after(self, key: ObjectKey) -> float:
        """Reconcile once; return the seconds after which that reconcile requests the next one."""
        result = await self.process.reconcile(key)
        assert result.requeue_after is not None
        return result.requeue_after

    async def names(self) -> list[str]:
        return sorted(pet.name for pet in await self.store.pets())

    def restart(self) -> None:
        self.process = Process(self.server, self.store.client, self.fate)

    async def meet(self, key: ObjectKey, script: dict[str, str]) -> None:
        """Reconcile once with faults, then restart the process; `script` maps names of calls to faults."""

        class Named(Fate):
            async def pass_through(self, what: str, *rest: Any) -> Any:
                self.script = {len(self.passed): script.pop(what, "")}
                return await super().pass_through(what, *rest)

        self.process = Process(self.server, self.store.client, Named())
        with contextlib.suppress(Died):
            await self.process.reconcile(key)
        self.restart()
