"""Stand-ins for what a controller works with."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Self

from manager.controller.controller import Controller
from manager.controller.options import ControllerOptions
from manager.controller.queue import WorkQueue
from manager.controller.reconciler import Priority, Request, Result
from manager.telemetry.metrics import Metrics
from tests.unit.cache.objects import Pod


class Numbers:
    """Where the keys of a queue are."""

    def __init__(self, queue: WorkQueue[Any] | None) -> None:
        assert queue is not None
        self.ready = {priority: queue.depth(priority) for priority in Priority}
        self.delayed = len(queue._delayed)
        self.processing = len(queue._in_progress)
        self.dirty = len(queue._items) - len(queue._delayed) - queue._ready.length
        self.backing_off = len(queue._backoff)
        self.idle_getters = len(queue._getters)


class ManualSource:
    """A source that the test speaks through; in sync from the start unless told otherwise."""

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
        assert self.queue is not None
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
    """Stub reconciler that behaves as the test says, and records each request with its time."""

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
        self.calls.append((request.name, round(asyncio.get_running_loop().time(), 3)))
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        try:
            return None if self._act is None else await self._act(request)
        finally:
            self.running -= 1


class Running:
    """A controller that runs for as long as the context lasts."""

    def __init__(
        self,
        reconciler: Reconciler,
        *,
        metrics: Metrics | None = None,
        sources: Iterable[ManualSource] | None = None,
        **options: object,
    ) -> None:
        self.metrics = metrics or Metrics()
        self.sources = [ManualSource()] if sources is None else list(sources)
        self.reconciler = reconciler
        self.controller = Controller(
            "test",
            reconciler,
            self.sources,
            options=ControllerOptions(**options),  # type: ignore[arg-type]
            metrics=self.metrics,
            rng=random.Random(7),
            primary=Pod.gvk,
        )
        self.task: asyncio.Task[None] | None = None

    def add(self, *names: str, namespace: str = "ns", **how: float) -> None:
        self.sources[0].add(*names, namespace=namespace, **how)

    def sample(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, {"controller": "test", **labels})

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self.controller.run(), name="controller under test")
        await turns()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.wait([self.task])


async def turns(count: int = 10) -> None:
    """Let everything happen that can happen now."""
    for _ in range(count):
        await asyncio.sleep(0)
