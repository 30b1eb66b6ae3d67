"""Measuring: short samples of everything that is compared, in turns, many times over."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import inspect
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

SAMPLE = 0.01
"""The minimum CPU seconds of a sample: long for the clock's resolution, short for disturbances."""

Work: TypeAlias = Callable[[], object] | Callable[[], Awaitable[object]]
"""The timed function or coroutine function. It is called repeatedly, so it must leave no changes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Benchmark:
    """A piece of work to measure.

    Attributes: name: the suite's name, a dot, and the benchmark's own name. about: one unit of the work, for
    people. prepare: enters with the work ready, and leaves without a trace. It runs in an event loop of the
    manager's kind. units: the number of units per call of the work. against: the names of benchmarks of the
    same suite to compare with.
    """

    name: str
    about: str
    prepare: Callable[[], AbstractAsyncContextManager[Work]]
    units: int = 1
    against: tuple[str, ...] = ()


def ready(make: Callable[[], Work]) -> Callable[[], AbstractAsyncContextManager[Work]]:
    """Return a `prepare` for work that leaves only memory behind; `make` creates the work."""

    @contextlib.asynccontextmanager
    async def prepare() -> AsyncIterator[Work]:
        yield make()

    return prepare


@dataclasses.dataclass(frozen=True, slots=True)
class Middle:
    """A median, and how far the middle half of the values is from it: 0.1 is 10 % to either side."""

    value: float
    spread: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Middle:
        """Return the median and the spread of one or more positive values."""
        middle = statistics.median(values)
        if len(values) == 1:
            return cls(middle, 0.0)
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(middle, (high - low) / 2 / middle)


def ratio(seconds: Sequence[float], other: Sequence[float]) -> Middle:
    """Return how many times as much it takes as `other`, which was measured in the same rounds."""
    return Middle.of([mine / its for mine, its in zip(seconds, other, strict=True)])


async def measure(benchmarks: Sequence[Benchmark], rounds: int) -> dict[str, list[float]]:
    """Measure the benchmarks side by side; return the CPU seconds of one unit in each round, by name.

    CPU time of all threads excludes other programs. Their effects on caches and clock rates remain; these
    last longer than a round, so they affect all benchmarks alike.
    """
    found: dict[str, list[float]] = {benchmark.name: [] for benchmark in benchmarks}
    async with contextlib.AsyncExitStack() as prepared:
        ready = [
            (benchmark, await prepared.enter_async_context(benchmark.prepare())) for benchmark in benchmarks
        ]
        calls = {benchmark.name: await _calls(work) for benchmark, work in ready}
        # The garbage collector skips all existing objects from here, as in a running manager.
        gc.collect()
        gc.freeze()
        try:
            for number in range(rounds):
                # The order alternates, so that no benchmark always follows the same one.
                for benchmark, work in ready if number % 2 == 0 else reversed(ready):
                    seconds = await _time(work, calls[benchmark.name])
                    found[benchmark.name].append(seconds / calls[benchmark.name] / benchmark.units)
        finally:
            gc.unfreeze()
    return found


async def repeat(benchmarks: Sequence[Benchmark], calls: int) -> None:
    """Do each benchmark's work `calls` times, for an external counter."""
    for benchmark in benchmarks:
        async with benchmark.prepare() as work:
            await _time(work, calls)


async def _calls(work: Work) -> int:
    """Return the number of calls per sample; this also warms up."""
    calls = 1
    while True:
        seconds = await _time(work, calls)
        if seconds >= SAMPLE:
            return calls
        calls = max(calls * 2, min(calls * 100, round(calls * 1.1 * SAMPLE / max(seconds, 1e-6))))


async def _time(work: Work, calls: int) -> float:
    if inspect.iscoroutinefunction(work):
        started = time.process_time()
        for _ in range(calls):
            await work()
    else:
        started = time.process_time()
        for _ in range(calls):
            work()
    return time.process_time() - started
