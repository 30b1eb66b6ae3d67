"""Requests because time has passed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable

from manager.controller.priority import Priority
from manager.controller.queue import WorkQueue
from manager.controller.request import Request

__all__ = ["TickerSource"]


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
        while True:
            await asyncio.sleep(self._interval * (1 + self._rng.uniform(-self._jitter, self._jitter)))
            for request in self._requests():
                queue.add(request, priority=self._priority)
