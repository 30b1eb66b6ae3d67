from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import pytest

from manager.cache.record import RecordDecoder
from manager.cache.reflector import Reflector, Upstream
from manager.cache.sink import Sink
from manager.cache.spec import WatchSpec
from manager.cache.store import Store
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics
from tests.support.scripted_wire import ScriptedWire, Step
from tests.unit.cache.objects import EventLog, Pod, running
from tests.unit.cache.server import Listed, PodServer
from tests.unit.conftest import LogLines


class Scene:
    """A reflector with its store, its delivered events and its scripted server."""

    def __init__(self, server: PodServer, log: LogLines, upstream: Upstream, **watch: Any) -> None:
        """Build a reflector; `watch` sets the namespace, and fields of the WatchSpec."""
        self.serve, self.sent, self.sorts, self.wire = server.on, server.sent, server.sorts, server.wire
        self.transport, self.metrics, self.log = upstream.transport, upstream.metrics, log
        self.told, self.store = EventLog(), Store()
        server.stores.append(self.store)
        namespace = watch.pop("namespace", "")
        decoder = RecordDecoder(Pod.gvk, field_manager="m", metadata_only=watch.get("metadata_only", False))
        self.sink = Sink(self.store, decoder, namespace, publish=self.told.events.extend)
        spec = WatchSpec(gvk=Pod.gvk, plural=Pod.plural, **watch)
        self.reflector = Reflector(spec, self.sink, upstream)

    def running(self) -> AbstractAsyncContextManager[None]:
        return running(self.reflector)

    @asynccontextmanager
    async def following(self, *listed: Any, then: Iterable[Step] = ()) -> AsyncIterator[Listed]:
        """Run the reflector; yield its streaming list as soon as the list is complete.

        `then` has the responses to later requests for a streaming list.
        """
        stream = Listed(*listed)
        self.serve("stream", stream, *then)
        async with self.running():
            await self.synced()
            yield stream

    async def synced(self) -> None:
        await self.sink.synced.wait()

    async def sync(self) -> None:
        """Run the reflector until its store is synced, then stop it."""
        async with self.running():
            await self.synced()

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def problem(self) -> str | None:
        return self.reflector.problem

    @property
    def said(self) -> list[str]:
        """Return the messages of all log lines above the debug level."""
        return [line["event"] for line in self.log if line["log_level"] != "debug"]

    @property
    def warnings(self) -> LogLines:
        return [line for line in self.log if line["log_level"] == "warning"]

    @property
    def names(self) -> list[str]:
        return sorted(record.key.name for record in self.store)

    @property
    def restarts(self) -> dict[str, float]:
        """Return the number of watch restarts for each reason."""
        samples = (each for metric in self.metrics.watch_restarts.collect() for each in metric.samples)
        return {each.labels["reason"]: each.value for each in samples if each.name.endswith("_total")}


Make = Callable[..., Scene]


@pytest.fixture
async def make(
    server: PodServer, log_lines: LogLines, transport: Transport, metrics: Metrics, rng: random.Random
) -> Make:
    return partial(Scene, server, log_lines, Upstream(transport, RestMapper(transport), metrics, rng))


@pytest.fixture
async def scene(make: Make) -> Scene:
    return make()


@pytest.fixture
async def server(wire: ScriptedWire) -> PodServer:
    return PodServer(wire)


@pytest.fixture(autouse=True)
def quiet(log_lines: object) -> None:
    """Capture the log, because printing would block the event loop."""
