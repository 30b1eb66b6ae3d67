"""A client and a cache with an API server behind them that nobody asks."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NoReturn

from benchmarks.micro.documents import FIELD_MANAGER
from manager.cache import Cache
from manager.client import Client
from manager.events import EventRecorder
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.metrics import Metrics

if TYPE_CHECKING:
    from manager.api import Resource
    from manager.kube.wire import WireRequest

IMAGE = "memcached:1.6.39-alpine"
"""What the sampled Deployment was made with."""


class NoServer:
    """Implements `manager.kube.wire.Wire`. What is measured here is not to send anything."""

    host = "nowhere"

    def exchange(self, request: WireRequest) -> NoReturn:
        """Nobody is to call it."""
        raise AssertionError(f"{request.method} {request.path} was sent: {request.body!r}")

    def abort(self) -> None:
        """There is no connection to break."""

    async def aclose(self) -> None:
        """There is no connection to close."""


class World:
    """What a reconciler works with, and a cache that shows what it is given.

    Attributes:
        client: of the memcached controller.
        events: takes Events, and sends none.
    """

    def __init__(self) -> None:
        metrics, rng = Metrics(), random.Random(1)
        self.transport = Transport(NoServer(), metrics=metrics, rng=rng, user_agent="benchmark")
        mapper = RestMapper(self.transport)
        self.cache = Cache(self.transport, mapper, field_manager=FIELD_MANAGER, metrics=metrics, rng=rng)
        self.events = EventRecorder(
            self.transport, component="benchmark", instance="benchmark", metrics=metrics, rng=rng
        )
        shared = Client(self.transport, mapper, self.cache, field_manager=FIELD_MANAGER)
        self.client = shared.named("memcached")

    def hold(self, kind: type[Resource], *objects: bytes, metadata_only: bool = False) -> None:
        """Have these in the cache."""
        informer = self.cache.informer(kind, metadata_only=metadata_only)
        for raw in objects:
            informer.observe_write(raw)
