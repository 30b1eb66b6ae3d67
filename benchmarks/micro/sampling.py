"""Measuring: short samples of everything that is compared, in turns, many times over."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import inspect
import time
from typing import TYPE_CHECKING

from benchmarks.micro.reference import reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.micro.benchmark import Benchmark, Work

SAMPLE = 0.01
"""The minimum CPU seconds of a sample: long for the clock's resolution, short for disturbances."""


@dataclasses.dataclass(slots=True)
class Samples:
    """The measurements of a benchmark, by round.

    Attributes: seconds: CPU time of one unit. references: the average time of the reference just before and
    after.
    """

    seconds: list[float] = dataclasses.field(default_factory=list)
    references: list[float] = dataclasses.field(default_factory=list)


async def measure(benchmarks: Sequence[Benchmark], rounds: int) -> dict[str, Samples]:
    """Measure the benchmarks side by side; return the samples by name.

    The figures are the CPU time of all threads, which excludes other programs. Their effects on caches and
    clock rates remain; these last longer than a round, so they affect all benchmarks alike.
    """
    found = {benchmark.name: Samples() for benchmark in benchmarks}
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
                before = _time_reference()
                # The order alternates, so that no benchmark always follows the same one.
                for benchmark, work in ready if number % 2 == 0 else reversed(ready):
                    seconds = await _time(work, calls[benchmark.name])
                    after = _time_reference()
                    samples = found[benchmark.name]
                    samples.seconds.append(seconds / calls[benchmark.name] / benchmark.units)
                    samples.references.append((before + after) / 2)
                    before = after
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


def _time_reference() -> float:
    started = time.process_time()
    reference()
    return time.process_time() - started
