"""A recorder on a scripted wire, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from manager.api import ObjectMeta, Resource
from manager.events import EventRecorder
from manager.kube.transport import Transport
from manager.metrics import Metrics
from tests.support.scripted_wire import Reply, ScriptedWire, Sent, Step

EVENTS = "/api/v1/namespaces/ns/events"
WRITES = "/apis/apps/v1/namespaces/ns/deployments"


class Widget(Resource, group="test.example.com", version="v1", plural="widgets"):
    """Some kind."""


def widget(name: str = "w", *, namespace: str = "ns", version: str = "5") -> Widget:
    return Widget(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=f"uid-of-{name}", resource_version=version)
    )


class EventServer:
    """Keeps Events as an API server does."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}

    def serve(self, wire: ScriptedWire) -> None:
        wire.on("POST", "/api/v1/namespaces/*", self.create)
        wire.on("PATCH", "/api/v1/namespaces/*", self.patch)

    def create(self, sent: Sent) -> Step:
        event = sent.json()
        path = f"{sent.path}/{event['metadata']['name']}"
        if path in self.events:
            return Reply.status(409, "AlreadyExists")
        self.events[path] = event
        return Reply.json(event, status=201)

    def patch(self, sent: Sent) -> Step:
        if sent.path not in self.events:
            return Reply.status(404, "NotFound")
        assert sent.headers["Content-Type"] == "application/merge-patch+json"
        self.events[sent.path] |= sent.json()
        return Reply.json(self.events[sent.path])

    @property
    def listed(self) -> list[dict[str, Any]]:
        return list(self.events.values())


class Bench:
    """What a test has at hand; the recorder's `run` runs."""

    def __init__(self, **options: Any) -> None:
        self.wire = ScriptedWire()
        self.server = EventServer()
        self.server.serve(self.wire)
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
        """The Events on the server once everything had time to be sent."""
        await asyncio.sleep(60)
        return self.server.listed


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    bench.start()
    yield bench
    await bench.stop()
