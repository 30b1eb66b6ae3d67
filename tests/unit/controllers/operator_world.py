"""Operators on caches that the test fills, and an API server that does nothing but take status writes."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from controllers.main import OPERATORS, PROGRAM
from devcluster.patch.json_patch import json_patch
from manager.controller import ControllerOptions
from manager.kube.transport import Transport
from manager.manager import Manager
from manager.metrics import Metrics
from manager.operator import add_controller
from manager.settings import SettingValues
from tests.support.scripted_wire import Reply, ScriptedWire, Sent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from manager.api import Resource

Object = dict[str, Any]


class RecordedEvents:
    """Events as they are recorded, none of them sent."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, str, str]] = []

    def event(self, obj: Resource, type: str, reason: str, message: str) -> None:  # noqa: A002 - as the original
        self.told.append((obj.metadata.name, type, reason, message))

    def reasons(self, name: str) -> list[str]:
        return [reason for about, _, reason, _ in self.told if about == name]


class OperatorWorld:
    """These operators see what the test puts into the caches; their settings have the defaults."""

    def __init__(self, *names: str) -> None:
        self.wire = ScriptedWire()
        self.metrics = Metrics()
        self.events = RecordedEvents()
        rng = random.Random(1)
        transport = Transport(self.wire, metrics=self.metrics, rng=rng, user_agent="test")
        operators = [each for each in OPERATORS if each.name in names]
        settings = {key: key.default_value() for each in operators for key in each.declared_settings}
        self.manager = Manager(
            transport,
            program=PROGRAM,
            metrics=self.metrics,
            rng=rng,
            identity="test",
            settings=SettingValues(settings),
        )
        self.manager.events = self.events  # type: ignore[assignment] # its one method is all they use
        for operator in operators:
            add_controller(operator(self.manager), ControllerOptions())
        self._version = 1

    def kind(self, kind: type[Resource], *, metadata_only: bool = False) -> Followed:
        """The watch of a kind that an operator asked for."""
        return Followed(self, kind, metadata_only=metadata_only)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Within this block the controllers run; the caches have to be in sync before they do anything."""
        tasks = [asyncio.create_task(each.run(), name=each.name) for each in self.manager.controllers]
        try:
            await self.quiet()
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def quiet(self) -> None:
        """Let everything happen that can happen; in virtual time that takes none."""
        await asyncio.sleep(0.004)  # less than the first back-off

    def reconciles(self, controller: str) -> int:
        family = "controller_runtime_reconcile_total"
        found = self.metrics.registry.collect()
        return int(
            sum(
                sample.value
                for each in found
                for sample in each.samples
                if sample.name == family and sample.labels["controller"] == controller
            )
        )

    def writes(self) -> list[Sent]:
        return [sent for sent in self.wire.requests if sent.method != "GET"]

    def next_version(self) -> str:
        self._version += 1
        return str(self._version)


class Followed:
    """One kind, on a server and in the cache that follows it."""

    def __init__(self, world: OperatorWorld, kind: type[Resource], *, metadata_only: bool) -> None:
        informer = world.manager.cache.lookup(kind, metadata_only=metadata_only)
        assert informer is not None, f"nobody asked for {kind.__name__}"
        self.informer = informer
        [self._intake] = informer._intakes
        self._world, self._kind = world, kind
        self._stored: dict[tuple[str, str], Object] = {}
        group_version = kind.gvk.api_version
        root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
        resource = {"name": kind.plural, "kind": kind.gvk.kind, "namespaced": True}
        world.wire.on("GET", root, Reply.json({"resources": [resource]}))
        self.path = f"{root}/namespaces/*"
        world.wire.on("GET", self.path.removesuffix("/status"), self._give)
        world.wire.on("PATCH", self.path, self.take_status)

    def obj(self, name: str, namespace: str = "default", *, spec: Any = None, **metadata: Any) -> Object:
        """An object as it is in the server's answers; of one that is there already, changed as said."""
        known = self._stored.get((namespace, name), {"metadata": {"generation": 1, "uid": f"{name}-1"}})
        changed = {**known["metadata"], "name": name, "namespace": namespace, **metadata}
        if spec is not None and "spec" in known and spec != known["spec"]:
            changed["generation"] += 1
        found = {**known, "apiVersion": self._kind.gvk.api_version, "kind": self._kind.gvk.kind}
        found["metadata"] = changed
        return found if spec is None else {**found, "spec": spec}

    def listed(self, *objects: Object) -> None:
        """The first list is complete, and has these."""
        self._intake.begin_list()
        for obj in objects:
            self._intake.list_item(self._keep(obj))
        self._intake.finish_list(int(self._world.next_version()))

    def put(self, name: str, namespace: str = "default", **changes: Any) -> None:
        """An object is created, or changed as said: `spec=...`, or fields of its metadata."""
        self._intake.event("MODIFIED", self._keep(self.obj(name, namespace, **changes)))

    def gone(self, name: str, namespace: str = "default") -> None:
        """An object has been removed."""
        obj = self._stored.pop((namespace, name))
        obj["metadata"]["resourceVersion"] = self._world.next_version()
        self._intake.event("DELETED", msgspec.Raw(orjson.dumps(obj)))

    def stored(self) -> list[Object]:
        """All objects, as the server has them."""
        return list(self._stored.values())

    def status(self, name: str, namespace: str = "default") -> Object:
        """The status as the server has it."""
        found: Object = self._stored[namespace, name].get("status", {})
        return found

    def _give(self, sent: Sent) -> Reply:
        *_, namespace, _, name = sent.path.split("/")
        stored = self._stored.get((namespace, name))
        return Reply.status(404, "NotFound") if stored is None else Reply.json(stored)

    def take_status(self, sent: Sent) -> Reply:
        """What the server does with a write of a status."""
        *_, namespace, _, name, subresource = sent.path.split("/")
        assert subresource == "status"
        stored = self._stored.get((namespace, name))
        if stored is None:
            return Reply.status(404, "NotFound")
        test, *changes = sent.json()
        assert test == {"op": "test", "path": "/metadata/uid", "value": stored["metadata"]["uid"]}
        assert all(change["path"].startswith("/status") for change in changes)
        self._keep(json_patch(stored, changes))
        return Reply.json(self._stored[namespace, name])

    def _keep(self, obj: Object) -> msgspec.Raw:
        metadata = {**obj["metadata"], "resourceVersion": self._world.next_version()}
        self._stored[metadata["namespace"], metadata["name"]] = {**obj, "metadata": metadata}
        return msgspec.Raw(orjson.dumps({**obj, "metadata": metadata}))
