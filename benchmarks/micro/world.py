"""A client and a cache, with an API server that gets no requests unless a wire is given."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NoReturn

from benchmarks.micro.documents import FIELD_MANAGER
from controllers.cache.memcached import MemcachedOperator
from manager.cache import WHOLE, Selection
from manager.kube.transport import Transport
from manager.process.manager import Manager
from manager.settings import SettingValues
from manager.telemetry.metrics import Metrics
from manager.util.program import Program

if TYPE_CHECKING:
    from manager.api import Resource
    from manager.kube.wire import Wire, WireRequest


class NoServer:
    """A fake of `manager.kube.wire.Wire` that fails on every request: the measured code must send none."""

    host = "nowhere"

    def exchange(self, request: WireRequest) -> NoReturn:
        """Fail."""
        raise AssertionError(f"{request.method} {request.path} was sent: {request.body!r}")

    def abort(self) -> None:
        """Do nothing: there is no connection to break."""

    async def aclose(self) -> None:
        """Do nothing: there is no connection to close."""


class World:
    """The Memcached operator, not running, with a cache of given objects."""

    def __init__(self, wire: Wire | None = None) -> None:
        metrics, rng = Metrics(), random.Random(1)
        self.transport = Transport(wire or NoServer(), metrics=metrics, rng=rng, user_agent="benchmark")
        settings = {key: key.default_value() for key in MemcachedOperator.declared_settings}
        self.manager = Manager(
            self.transport,
            program=Program(FIELD_MANAGER, "0"),
            metrics=metrics,
            rng=rng,
            identity="benchmark",
            settings=SettingValues(settings),
        )
        self.cache = self.manager.cache
        self.operator = MemcachedOperator(self.manager)
        self.operator.proxy = []
        self.client = self.operator.client

    def hold(self, kind: type[Resource], *objects: bytes, selection: Selection = WHOLE) -> None:
        """Put objects into the cache."""
        informer = self.cache.informer(kind, **selection._asdict())
        for raw in objects:
            informer.observe_write(raw)
