"""A world for the Pet reconciler: an API server's Pets, a store, and a process between them that may die.

Every call that leaves the process passes a point at which `Fate` may lose it on its way there or back, or end
the process. The store is a real one, called without gRPC between; a process that begins anew remembers
nothing.
"""

from __future__ import annotations

import asyncio
import copy
import datetime
import json
import random
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

from apis.petstore.v1beta1.pet import Pet
from controllers.petstore.pet import PetOperator
from manager.api import ObjectKey
from manager.cache import Record, Selection
from manager.controller import Result
from manager.kube.errors import Conflict, ConnectionLost, Invalid, NotFound
from manager.operator.running import ObjectReconciler
from manager.settings import SettingValues
from petstore.client import PetStoreClient, Unreachable
from tests.unit.controllers.fate import Fate

NAMESPACE = "default"
CREATED = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class FatefulStore:
    """The store's client, as the reconciler knows it."""

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
    """Pets by key, each as JSON; deletes them when the last finalizer goes."""

    def __init__(self) -> None:
        self.pets: dict[ObjectKey, dict[str, Any]] = {}
        self.history: list[dict[ObjectKey, dict[str, Any]]] = []
        """All that there was, after each change."""
        self.writes = 0
        self.serves_pets = True
        """Whether it knows the kind; not so for a moment when the definition is replaced."""
        self._version = 0

    def create(self, name: str, spec: dict[str, str], **metadata: Any) -> ObjectKey:
        key = ObjectKey(NAMESPACE, name)
        assert key not in self.pets
        created = CREATED + datetime.timedelta(seconds=self._version)
        self.pets[key] = {
            "apiVersion": "petstore.example.com/v1beta1",
            "kind": "Pet",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": f"uid-{name}-{self._version}",
                "generation": 1,
                "creationTimestamp": created.isoformat().replace("+00:00", "Z"),
                **metadata,
            },
            "spec": dict(spec),
        }
        self._touch(self.pets[key])
        return key

    def change(self, key: ObjectKey, **spec: str) -> None:
        self.pets[key]["spec"].update(spec)
        self.pets[key]["metadata"]["generation"] += 1
        self._touch(self.pets[key])

    def delete(self, key: ObjectKey) -> None:
        if key in self.pets:
            self.pets[key]["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
            self._touch(self.pets[key])
            self._collect(key)

    def vanish(self, key: ObjectKey) -> None:
        """Delete it, and have somebody take away what holds it."""
        self.pets[key]["metadata"]["finalizers"] = []
        self.delete(key)

    def get(self, key: ObjectKey) -> Pet:
        self._find(key)
        return self.record(key).decode(Pet)

    def patch(self, pet: Pet, part: str) -> Pet:
        stored = self._find(pet.key)
        wire = pet.to_wire()
        if part == "status":
            if stored["metadata"]["uid"] != pet.metadata.uid:
                raise Invalid(422, "Invalid", "the test of the uid has failed")
            after = {**stored, "status": wire["status"]}
        else:
            if stored["metadata"]["resourceVersion"] != pet.metadata.resource_version:
                raise Conflict(409, "Conflict", "changed")
            metadata = {**stored["metadata"]}
            for field in ("finalizers", "annotations"):
                metadata[field] = wire["metadata"].get(field) or type(getattr(pet.metadata, field))()
            after = {**stored, "metadata": metadata}
        if after != stored:
            self.writes += 1
            self.pets[pet.key] = copy.deepcopy(after)
            self._touch(self.pets[pet.key])
        answer = self.record(pet.key).decode(Pet)
        self._collect(pet.key)
        return answer

    def record(self, key: ObjectKey) -> Record:
        return _record(key, self.pets[key])

    def _find(self, key: ObjectKey) -> dict[str, Any]:
        if not self.serves_pets:
            raise NotFound(404, "NotFound", "the server could not find the requested resource")
        if key not in self.pets:
            raise NotFound(404, "NotFound", "gone", {"name": key.name, "kind": "pets"})
        return self.pets[key]

    def _touch(self, stored: dict[str, Any]) -> None:
        self._version += 1
        stored["metadata"]["resourceVersion"] = str(self._version)
        self.history.append(copy.deepcopy(self.pets))

    def _collect(self, key: ObjectKey) -> None:
        metadata = self.pets[key]["metadata"]
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            del self.pets[key]
            self.history.append(copy.deepcopy(self.pets))


def _record(key: ObjectKey, stored: dict[str, Any]) -> Record:
    metadata = stored["metadata"]
    return Record(
        key=key,
        raw=json.dumps(stored).encode(),
        uid=metadata["uid"],
        version=int(metadata["resourceVersion"]),
        generation=metadata["generation"],
        deleting="deletionTimestamp" in metadata,
    )


class Cache:
    """What a process knows of the Pets: all there is, or, held back, what once was and its own writes."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._held: dict[ObjectKey, dict[str, Any]] | None = None

    def hold_back(self, at: dict[ObjectKey, dict[str, Any]] | None = None) -> None:
        """Bring no more news; with `at`, nothing of what came after that either."""
        self._held = copy.deepcopy(self._server.pets if at is None else at)

    def catch_up(self) -> None:
        self._held = None

    def observe_write(self, pet: Pet) -> None:
        if self._held is not None:
            assert pet.origin is not None
            self._held[pet.key] = json.loads(pet.origin)

    def get(self, key: ObjectKey) -> Record | None:
        pets = self._server.pets if self._held is None else self._held
        return _record(key, pets[key]) if key in pets else None

    def informer(self, kind: type[Pet]) -> Cache:
        """It is its own: there is one kind."""
        return self

    def list(self, *, index: tuple[str, str] | None = None) -> list[Record]:
        pets = self._server.pets if self._held is None else self._held
        records = [_record(key, stored) for key, stored in pets.items()]
        if index is None:
            return records
        name, value = index
        function = PetOperator.indexes[name]
        return [record for record in records if value in function(record, record.meta())]

    async def wait_synced(self) -> None:
        await asyncio.sleep(0)


class FatefulClient:
    """The API's client, as the reconciler knows it."""

    def __init__(self, server: ApiServer, cache: Cache, fate: Fate, part: str = "metadata") -> None:
        self._server = server
        self._cache = cache
        self._fate = fate
        self._part = part
        if part == "metadata":
            self.status = FatefulClient(server, cache, fate, "status")
            self.uncached = FatefulReader(server, fate)

    def named(self, controller: str) -> FatefulClient:
        return self

    def ours(self, selection: Selection) -> FatefulClient:
        return self

    async def find(self, kind: type[Pet], key: ObjectKey) -> Pet | None:
        record = self._cache.get(key)
        return record and record.decode(Pet)

    async def patch(self, pet: Pet) -> Pet:
        assert pet.origin is not None
        if pet.to_wire() == Pet.decode(pet.origin).to_wire():
            return pet

        async def write() -> Pet:
            answer = self._server.patch(pet, self._part)
            self._cache.observe_write(answer)
            return answer

        return await self._fate.pass_through(f"patch {self._part}", write, ConnectionLost("by fate"))

    async def report(self, pet: Pet, **_: object) -> bool:
        return await self.patch(pet) is not pet


class FatefulReader:
    """Its way past the cache."""

    def __init__(self, server: ApiServer, fate: Fate) -> None:
        self._server = server
        self._fate = fate

    async def get(self, kind: type[Pet], key: ObjectKey) -> Pet:
        async def read() -> Pet:
            return self._server.get(key)

        return await self._fate.pass_through("get", read, ConnectionLost("by fate"))


class Told:
    """Events, as (name, reason)."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def event(self, obj: Pet, kind: str, reason: str, message: str) -> None:
        self.events.append((obj.metadata.name, reason))


class Process:
    """One life of the manager."""

    def __init__(
        self, server: ApiServer, client: PetStoreClient, fate: Fate, told: Told | None = None
    ) -> None:
        self.told = told or Told()
        self.store: Any = FatefulStore(client, fate)
        self.cache = Cache(server)
        settings = {each: each.default_value() for each in PetOperator.declared_settings}
        manager: Any = SimpleNamespace(
            client=FatefulClient(server, self.cache, fate),
            cache=self.cache,
            events=self.told,
            settings=SettingValues(settings),
            rng=random.Random(1),
        )
        self.operator = PetOperator(manager)
        self.operator.use(self.store)
        self.claims = self.operator.claims
        self.outlook = self.operator.outlook
        self.reconciler = ObjectReconciler(self.operator)

    async def reconcile(self, key: ObjectKey) -> Result | None:
        return await self.reconciler.reconcile(key)

    async def settle(self, key: ObjectKey, rounds: int = 20) -> None:
        """Reconcile until there is no reason to come back."""
        for _ in range(rounds):
            try:
                if await self.reconcile(key) is None:
                    return
            except (Conflict, ConnectionLost, NotFound):
                continue
        raise AssertionError(f"{key} does not settle")

    async def settle_all(self, keys: list[ObjectKey]) -> None:
        """All of them side by side; raises Died when the process does, and what was under way is lost."""
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
