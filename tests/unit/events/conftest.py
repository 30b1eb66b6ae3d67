"""A recorder on a scripted wire, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from devcluster import DevCluster
from devcluster.storage import Change, Key
from manager.api import ObjectMeta, Resource
from manager.events import EventRecorder
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics
from tests.support.cluster_wire import ClusterServer
from tests.support.scripted_wire import ScriptedWire

EVENTS = "/api/v1/namespaces/ns/events"
WRITES = "/apis/apps/v1/namespaces/ns/deployments"


class Widget(Resource, group="test.example.com", version="v1", plural="widgets"):
    """Some kind."""


def widget(name: str = "w", *, namespace: str = "ns", version: str = "5") -> Widget:
    return Widget(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=f"uid-of-{name}", resource_version=version)
    )


class EventServer(ClusterServer):
    """A control plane as far as Events go."""

    def __init__(self, cluster: DevCluster) -> None:
        super().__init__(cluster)
        self._created: list[Key] = []
        cluster.store.subscribe(self._note)

    def _note(self, change: Change) -> None:
        if change.old is None and change.key.plural == "events":
            self._created.append(change.key)

    @property
    def listed(self) -> list[dict[str, Any]]:
        """The Events, in the order in which they were created, without what the server has added."""
        stored = [each.decode() for key in self._created if (each := self.cluster.store.get(key))]
        for each in stored:
            each["metadata"] = {name: each["metadata"][name] for name in ("name", "namespace")}
            assert each.pop("eventTime") is None
        return stored

    def forget(self) -> None:
        """Delete all Events, as the server does after an hour."""
        for key in self._created:
            self.cluster.store.delete(key)
        self._created.clear()


class Bench:
    """Test bench with a running recorder, its wire and its server."""

    def __init__(self, server: EventServer, **options: Any) -> None:
        self.wire = ScriptedWire()
        self.server = server
        server.serve(self.wire)
        self.metrics = Metrics()
        rng = random.Random(1)
        self.transport = Transport(self.wire, metrics=self.metrics, rng=rng, user_agent="test")
        self.recorder = EventRecorder(
            self.transport,
            component="operator-manager",
            instance="host_1",
            metrics=self.metrics,
            rng=rng,
            **options,
        )
        self.running: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.running = asyncio.get_running_loop().create_task(self.recorder.run())

    async def stop(self) -> None:
        if self.running is not None:
            self.running.cancel()
            await asyncio.wait([self.running])
            self.running = None

    def outcome(self, name: str) -> float:
        value = self.metrics.registry.get_sample_value("operator_manager_events_total", {"result": name})
        assert value is not None
        return value

    async def settled(self) -> list[dict[str, Any]]:
        """Return the Events on the server after time to send them all."""
        await asyncio.sleep(60)
        return self.server.listed


@pytest.fixture
async def server() -> AsyncIterator[EventServer]:
    async with DevCluster(port=None, controllers=False) as cluster:
        for name in ("ns", "other", "odd"):
            await cluster.client.create("namespaces", "", {"metadata": {"name": name}})
        yield EventServer(cluster)


@pytest.fixture
async def bench(server: EventServer) -> AsyncIterator[Bench]:
    bench = Bench(server)
    bench.start()
    yield bench
    await bench.stop()
