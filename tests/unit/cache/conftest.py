from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from manager.cache.record import RecordDecoder
from manager.cache.reflector import Reflector, Upstream
from manager.cache.sink import Sink
from manager.cache.spec import WatchSpec
from manager.cache.store import Store
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics
from tests.support.scripted_wire import ScriptedWire
from tests.unit.cache.objects import EventLog, Pod, running
from tests.unit.cache.server import PodServer


class Following:
    """A reflector, its store, and what was told."""

    def __init__(self, reflector: Reflector, store: Store, sink: Sink, told: EventLog) -> None:
        self.reflector = reflector
        self.store = store
        self.sink = sink
        self.told = told

    def running(self) -> AbstractAsyncContextManager[None]:
        return running(self.reflector)

    async def sync(self) -> None:
        """Run until it has all, and no longer."""
        async with self.running():
            await self.sink.synced.wait()

    @property
    def names(self) -> list[str]:
        return sorted(record.key.name for record in self.store)


Make = Callable[..., Following]


@pytest.fixture
async def make(server: PodServer, transport: Transport, metrics: Metrics, rng: random.Random) -> Make:
    def build(
        *, namespace: str = "", metadata_only: bool = False, labels: str = "", fields: str = ""
    ) -> Following:
        told, store = EventLog(), Store()
        server.stores.append(store)
        spec = WatchSpec(
            gvk=Pod.gvk,
            plural=Pod.plural,
            metadata_only=metadata_only,
            label_selector=labels,
            field_selector=fields,
        )
        decoder = RecordDecoder(Pod.gvk, field_manager="m", metadata_only=metadata_only)
        sink = Sink(
            store, decoder, namespace, publish=lambda events: [told(event) for event in events] and None
        )
        reflector = Reflector(spec, sink, Upstream(transport, RestMapper(transport), metrics, rng))
        return Following(reflector, store, sink, told)

    return build


@pytest.fixture
async def following(make: Make) -> Following:
    return make()


@pytest.fixture
async def server(wire: ScriptedWire) -> PodServer:
    return PodServer(wire)


@pytest.fixture(autouse=True)
def quiet(log_lines: object) -> None:
    """Capture the log, because printing would block the loop."""
