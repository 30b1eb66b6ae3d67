"""The work queue: the cost of a key, and whether it grows with the number of keys."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from benchmarks.micro.sampling import Benchmark, ready
from manager.controller import KeyBackoff, Priority, Request, WorkQueue
from manager.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from benchmarks.micro.sampling import Work

SIZES = (1, 1_000, 100_000)
MIDDLE = 1_000
AT_WORK = 8
"""The default number of a controller's workers."""


class NaiveQueue:
    """The algorithm of every work queue, and nothing else: no priority, no time, no metrics."""

    def __init__(self) -> None:
        self._ready: deque[Request] = deque()
        self._dirty: set[Request] = set()
        self._at_work: set[Request] = set()
        self._filled = asyncio.Event()

    def add(self, key: Request) -> None:
        """Ask for `key` to be worked on."""
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._at_work:
            self._ready.append(key)
            self._filled.set()

    async def get(self) -> Request:
        """Wait for the next key."""
        while not self._ready:
            self._filled.clear()
            await self._filled.wait()
        key = self._ready.popleft()
        self._dirty.discard(key)
        self._at_work.add(key)
        return key

    def done(self, key: Request) -> None:
        """End the work on `key`."""
        self._at_work.discard(key)
        if key in self._dirty:
            self._ready.append(key)
            self._filled.set()


def make_queue() -> WorkQueue[Request]:
    return WorkQueue("bench", metrics=Metrics(), backoff=KeyBackoff(rng=random.Random(1)))


def keys(count: int) -> list[Request]:
    return [Request("default", f"object-{index}") for index in range(count)]


def through(count: int) -> Work:
    """Add all keys, then take and finish each."""
    queue, all_keys = make_queue(), keys(count)

    async def work() -> None:
        for key in all_keys:
            queue.add(key)
        for _ in all_keys:
            item = await queue.get()
            assert item is not None
            queue.forget(item.key)
            queue.done(item.key)

    return work


def through_naive(count: int) -> Work:
    queue, all_keys = NaiveQueue(), keys(count)

    async def work() -> None:
        for key in all_keys:
            queue.add(key)
        for _ in all_keys:
            queue.done(await queue.get())

    return work


def through_with_priorities(count: int) -> Work:
    """Add keys with low priority, and raise half of them before their turn."""
    queue, all_keys = make_queue(), keys(count)

    async def work() -> None:
        for key in all_keys:
            queue.add(key, priority=Priority.LOW)
        for key in all_keys[::2]:
            queue.add(key)
        for _ in all_keys:
            item = await queue.get()
            assert item is not None
            queue.done(item.key)

    return work


def through_heap(count: int) -> Work:
    """Use a heap for priorities, the naive way, where a raised key leaves a dead entry."""
    all_keys = keys(count)
    heap: list[tuple[int, int, Request]] = []
    wanted: dict[Request, int] = {}

    def work() -> None:
        for number, key in enumerate(all_keys):
            wanted[key] = 0
            heappush(heap, (0, number, key))
        for number, key in enumerate(all_keys[::2]):
            wanted[key] = -10
            heappush(heap, (-10, number, key))
        while heap:
            priority, _, key = heappop(heap)
            if wanted.get(key) == priority:
                del wanted[key]

    return work


def with_backoff(count: int) -> Work:
    """Fail each key once; it waits, a change adds it again, and it succeeds."""
    queue, all_keys = make_queue(), keys(count)

    async def work() -> None:
        for key in all_keys:
            queue.add_rate_limited(key)
        for key in all_keys:
            queue.add(key)
        for _ in all_keys:
            item = await queue.get()
            assert item is not None
            queue.forget(item.key)
            queue.done(item.key)

    return work


def asked_again(count: int) -> Work:
    """Add keys that are waiting already, as most events of a busy object do."""
    queue, all_keys = make_queue(), keys(count)
    for key in all_keys:
        queue.add(key)

    def work() -> None:
        for key in all_keys:
            queue.add(key)

    return work


def while_many_wait(waiting: int) -> Work:
    """Process a few keys at normal priority, while many of low priority wait."""
    queue, urgent = make_queue(), keys(AT_WORK)
    for index in range(waiting):
        queue.add(Request("backlog", f"object-{index}"), priority=Priority.LOW)

    async def work() -> None:
        for key in urgent:
            queue.add(key)
        for _ in urgent:
            item = await queue.get()
            assert item is not None
            queue.done(item.key)
            if item.key.namespace == "backlog":  # it has waited for the maximum time
                queue.add(item.key, priority=Priority.LOW)

    return work


BENCHMARKS = (
    *(
        Benchmark(
            f"queue.through-{count}",
            f"a key added, taken, forgotten and done, {count} of them at a time",
            ready(partial(through, count)),
            units=count,
            against=("queue.naive-1000",) if count == MIDDLE else ("queue.through-1000",),
        )
        for count in SIZES
    ),
    Benchmark(
        "queue.naive-1000",
        "the same with a deque and two sets, without priority, time and metrics",
        ready(partial(through_naive, MIDDLE)),
        units=MIDDLE,
    ),
    Benchmark(
        "queue.asked-again",
        "a key added that waits already",
        ready(partial(asked_again, MIDDLE)),
        units=MIDDLE,
        against=("queue.through-1000",),
    ),
    Benchmark(
        "queue.priorities",
        "a key added low, every other raised, then taken and done",
        ready(partial(through_with_priorities, MIDDLE)),
        units=MIDDLE,
        against=("queue.heap", "queue.through-1000"),
    ),
    Benchmark("queue.heap", "the same with heapq alone", ready(partial(through_heap, MIDDLE)), units=MIDDLE),
    Benchmark(
        "queue.backoff",
        "a key that fails, waits, is asked for again, and succeeds",
        ready(partial(with_backoff, MIDDLE)),
        units=MIDDLE,
        against=("queue.through-1000",),
    ),
    *(
        Benchmark(
            f"queue.urgent-before-{waiting}",
            f"a key of normal priority while {waiting} of low priority wait",
            ready(partial(while_many_wait, waiting)),
            units=AT_WORK,
            against=() if waiting == AT_WORK else (f"queue.urgent-before-{AT_WORK}",),
        )
        for waiting in (AT_WORK, 100_000)
    ),
)
