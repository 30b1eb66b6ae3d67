"""Requests because time has passed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable

from manager.controller.priority import Priority
from manager.controller.queue import WorkQueue
from manager.controller.request import Request

__all__ = ["TickerSource"]

_SPREAD = 0.1
"""The part of the interval over which the requests of one tick are spread."""

_PAUSE = 0.05
"""Seconds between two portions of them, at least."""


class TickerSource:
    """Asks for the same things again and again, for what no watch tells about."""

    problem: str | None = None
    """It has none: it is in sync by itself."""

    def __init__(
        self,
        interval: float,
        requests: Callable[[], Iterable[Request]],
        *,
        jitter: float = 0.1,
        priority: int = Priority.LOW,
        rng: random.Random,
    ) -> None:
        """Asks for `requests()` every `interval` seconds, give or take the part `jitter` of it.

        Not for all of them at once: they are spread over a tenth of the interval.

        Raises `ValueError` unless the interval is positive and the jitter from 0 to 1.
        """
        if not interval > 0 or not 0 <= jitter <= 1:
            raise ValueError(f"a ticker needs interval > 0 and jitter 0 to 1, not {interval} and {jitter}")
        self._interval = interval
        self._requests = requests
        self._jitter = jitter
        self._priority = priority
        self._rng = rng

    async def wait_synced(self) -> None:
        """Return at once."""

    async def run(self, queue: WorkQueue[Request]) -> None:
        """Tick until cancelled, first after one interval."""
        now = asyncio.get_running_loop().time
        tick = now()
        while True:
            # Counted from the last tick, not from where its requests had all been asked for.
            tick = max(now(), tick + self._interval * (1 + self._rng.uniform(-self._jitter, self._jitter)))
            await asyncio.sleep(tick - now())
            await self._ask(queue)

    async def _ask(self, queue: WorkQueue[Request]) -> None:
        """Ask for all, a portion at a time."""
        requests = tuple(self._requests())
        spread = self._interval * _SPREAD
        portions = max(1, min(len(requests), int(spread / _PAUSE)))
        for portion in range(portions):
            if portion:
                await asyncio.sleep(spread / portions)
            for request in requests[
                len(requests) * portion // portions : len(requests) * (portion + 1) // portions
            ]:
                queue.add(request, priority=self._priority)
