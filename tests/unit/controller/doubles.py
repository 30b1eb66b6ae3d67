"""Test doubles of a controller's dependencies, and cached objects."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Self

import msgspec
import orjson

from manager.api import ObjectKey, Resource
from manager.cache import Cache, CacheEvent, Informer, Record
from manager.cache.record import RecordDecoder
from manager.controller.controller import Controller
from manager.controller.queue import WorkQueue
from manager.controller.reconciler import ControllerOptions, Request, Result
from manager.telemetry.metrics import Metrics
from tests.unit.cache.objects import Pod


class ManualSource:
    """Event source that the test triggers; it is synced from the start by default."""

    def __init__(self, *, synced: bool = True, problem: str | None = None) -> None:
        self.problem = problem
        self.queue: WorkQueue[Request] | None = None
        self._synced = asyncio.Event()
        self.stopped = False
        if synced:
            self._synced.set()

    def sync(self) -> None:
        self.problem = None
        self._synced.set()

    def add(self, *names: str, namespace: str = "ns", **how: float) -> None:
        for name in names:
            self.queue.add(Request(namespace, name), **how)

    async def wait_synced(self) -> None:
        await self._synced.wait()

    async def run(self, queue: WorkQueue[Request]) -> None:
        self.queue = queue
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped = True


class Reconciler:
    """Stub reconciler that calls the test's function and records each request with its time."""

    def __init__(self, act: Callable[[Request], Awaitable[Result | None]] | None = None) -> None:
        self.calls: list[tuple[str, float]] = []
        self.running = 0
        self.most_at_once = 0
        self._act = act

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    @property
    def times(self) -> list[float]:
        return [time for _, time in self.calls]

    async def reconcile(self, request: Request) -> Result | None:
        self.calls.append((request.name, now()))
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        try:
            return None if self._act is None else await self._act(request)
        finally:
            self.running -= 1


def taking(seconds: float) -> Reconciler:
    """Return a reconciler whose reconciles succeed after `seconds`."""
    return Reconciler(lambda _: asyncio.sleep(seconds))


def resisting(how: str, seconds: float = 0.0) -> Callable[[Request], Awaitable[Result | None]]:
    """Return a long reconcile that waits `seconds` when cancelled.

    Then it is cancelled if `how` is "ends", fails if `how` is "raises", and otherwise succeeds.
    """

    async def act(request: Request) -> Result | None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            await asyncio.sleep(seconds)
            if how == "ends":
                raise
            if how == "raises":
                raise OSError("could not clean up") from None
        return None

    return act


class Running:
    """Controller that runs until the context manager exits."""

    def __init__(
        self, reconciler: Reconciler, *, sources: Iterable[ManualSource] | None = None, **options: object
    ) -> None:
        self.metrics = Metrics()
        self.sources = [ManualSource()] if sources is None else list(sources)
        self.reconciler = reconciler
        self.controller = Controller(
            "test",
            reconciler,
            self.sources,
            options=ControllerOptions(**options),
            metrics=self.metrics,
            rng=random.Random(7),
            primary=Pod.gvk,
        )

    def add(self, *names: str, namespace: str = "ns", **how: float) -> None:
        self.sources[0].add(*names, namespace=namespace, **how)

    @property
    def backing_off(self) -> int:
        """Return the number of keys for which the queue keeps a back-off."""
        return len(self.controller._queue._backoff)

    def sample(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, {"controller": "test", **labels})

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self.controller.run(), name="controller under test")
        await turns()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


def now() -> float:
    return round(asyncio.get_running_loop().time(), 3)


async def turns(count: int = 10) -> None:
    """Let the event loop run its ready callbacks `count` times."""
    for _ in range(count):
        await asyncio.sleep(0)


def offline_cache(metrics: Metrics) -> Cache:
    return Cache(None, None, field_manager="test", metrics=metrics, rng=random.Random(1))


class Watched:
    """Informer of a kind without a server; the test delivers its list and its watch events."""

    def __init__(
        self,
        cache: Cache,
        kind: type[Resource],
        *,
        metadata_only: bool = False,
        informer: Informer | None = None,
    ) -> None:
        self.kind = kind
        self.informer = cache.informer(kind, metadata_only=metadata_only) if informer is None else informer
        self._sink = self.informer._sinks[0]
        self._version = 1
        self._sink.begin_list()

    def listed(self, *names: str, **metadata: Any) -> None:
        """Deliver these objects as part of the first list, which stays incomplete."""
        for name in names:
            self._sink.list_item(msgspec.Raw(self._object(name, metadata)))

    def synced(self) -> None:
        """Complete the first list."""
        self._version += 1
        self._sink.finish_list(self._version)

    def put(self, name: str, **metadata: Any) -> None:
        """Deliver the creation or change of an object."""
        self._sink.event("MODIFIED", msgspec.Raw(self._object(name, metadata)))

    def delete(self, name: str) -> None:
        """Deliver the deletion of an object."""
        record = self.informer.get(ObjectKey("ns", name))
        self.informer.observe_delete(record.key, record.uid, b'{"kind":"Status","apiVersion":"v1"}')

    def _object(self, name: str, metadata: dict[str, Any]) -> bytes:
        self._version += 1
        return raw(name, version=self._version, kind=self.kind, **metadata)


class Foo(Resource, group="tutorial.my.domain", version="v1", plural="foos"):
    pass


class Cluster(Resource, group="example.com", version="v1", plural="clusters", namespaced=False):
    pass


def owner(
    name: str = "foo-1", *, kind: str = "Foo", group: str = "tutorial.my.domain/", controller: bool = True
) -> dict[str, Any]:
    return {
        "apiVersion": f"{group}v1",
        "kind": kind,
        "name": name,
        "uid": f"uid-of-{name}",
        "controller": controller,
    }


def raw(name: str = "a", *, version: int = 1, kind: type[Resource] = Pod, **metadata: Any) -> bytes:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "generation": 1, **metadata}
    metadata["resourceVersion"] = str(version)
    return orjson.dumps({"apiVersion": kind.gvk.api_version, "kind": kind.gvk.kind, "metadata": metadata})


_decoder = RecordDecoder(Pod.gvk, field_manager="test")


def record(name: str = "a", *, version: int = 1, **metadata: Any) -> Record:
    return _decoder(raw(name, version=version, **metadata))[0]


def changed(before: Mapping[str, Any] | None = None, **after: Any) -> CacheEvent:
    """Return a change event: `before` is the old metadata, `after` has the fields that the change sets."""
    known = before or {}
    return CacheEvent(record(**known), record(version=2, **{**known, **after}))


def added(**metadata: Any) -> CacheEvent:
    return CacheEvent(None, record(**metadata))


def removed(**metadata: Any) -> CacheEvent:
    return CacheEvent(record(**metadata), None)
