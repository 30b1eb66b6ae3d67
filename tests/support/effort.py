"""Cost of work, in a unit that is independent of the machine's speed."""

from __future__ import annotations

import asyncio
import functools
import gc
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self


class Effort:
    """Processor time of this thread within the block, as a multiple of a fixed piece of work.

    The piece is done before and after the block, and the slower one counts: what slows the machine
    down slows both. The garbage collector does not look at what other tests have left, now or later.
    """

    unit = 0.0
    """Processor seconds that the fixed piece takes; about 0.01."""
    units = 0.0
    """What the block took."""

    def __enter__(self) -> Self:
        gc.freeze()
        self._before = _unit()
        self._began = time.thread_time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        spent = time.thread_time() - self._began
        self.unit = max(self._before, _unit())
        self.units = spent / self.unit


async def check_effort(measure: Callable[[], Awaitable[float]], *, below: float, attempts: int = 5) -> None:
    """Assert that the units that `measure` returns are below a bound, at the best of several attempts.

    An interrupt in the middle of so short a measurement takes longer than what is measured.
    """
    found = list[float]()
    while not found or (min(found) >= below and len(found) < attempts):
        found.append(await measure())
    assert min(found) < below, found


@functools.cache
def shortest_unit() -> float:
    """Return the shortest of five measured processor times of the fixed piece, cached for the process.

    At another moment the machine may be up to three times as fast.
    """
    return min(_unit() for _ in range(5))


def _unit() -> float:
    return min(_seconds_of_a_piece() for _ in range(3))


def _seconds_of_a_piece() -> float:
    """Time a piece of work that allocates, hashes, compares and interprets, as the measured code does."""
    began = time.thread_time()
    made = {f"{number:05x}": [number, {"a": number}] for number in range(12_000)}
    sorted((len(key) + len(value) for key, value in made.items()), reverse=True)
    return time.thread_time() - began


async def turns_of_others(work: Awaitable[object]) -> int:
    """Count how often another task gets a turn of the event loop while the work runs."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    try:
        await work
    finally:
        task.cancel()
    return turns
