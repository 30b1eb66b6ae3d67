"""CPU cost of code, in a unit that does not depend on the speed of the machine."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import pytest


class Effort:
    """Measurement of the CPU time of a `with` block, in multiples of a fixed piece of work.

    The fixed piece runs before and after the block, each time as the fastest of three. The slower one is the
    unit, so a machine that becomes slow changes the result little. Garbage collection skips earlier objects.
    """

    unit = 0.0
    """CPU seconds of the fixed piece of work, about 0.01."""
    units = 0.0
    """CPU time of the block, in multiples of `unit`."""

    def __enter__(self) -> Self:
        if "MUTANT_UNDER_TEST" in os.environ:
            pytest.skip("mutmut makes each call slower")
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


async def check_effort(measure: Callable[[], Awaitable[float]], *, below: float) -> None:
    """Assert that `measure` returns less than `below` in at least one of five attempts.

    An interrupt can take longer than the measured code, so one attempt may fail by chance.
    """
    found = list[float]()
    while not found or (min(found) >= below and len(found) < 5):
        found.append(await measure())
    assert min(found) < below, found


@functools.cache
def shortest_unit() -> float:
    """Return the shortest of 15 CPU times of the fixed piece of work, in seconds, and cache it."""
    return min(_unit() for _ in range(5))


def _unit() -> float:
    return min(_seconds_of_a_piece() for _ in range(3))


def _seconds_of_a_piece() -> float:
    """Return the CPU seconds of work that allocates, hashes and compares, as the measured code does."""
    began = time.thread_time()
    made = {f"{number:05x}": [number, {"a": number}] for number in range(12_000)}
    sorted((len(key) + len(value) for key, value in made.items()), reverse=True)
    return time.thread_time() - began


async def turns_of_others(work: Awaitable[object]) -> int:
    """Return the number of times that the event loop runs another task while `work` runs."""
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
