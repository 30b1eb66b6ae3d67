"""Events that wait to be sent."""

from __future__ import annotations

import asyncio
from collections import deque

from manager.events.series import Series

__all__ = ["Backlog"]


class Backlog:
    """Series in the order in which they are to be sent, each once; the oldest go when there are too many."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._series: deque[Series] = deque()
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._series)

    def add(self, series: Series) -> Series | None:
        """Append a series that is not waiting yet; return the one that had to go for it, if any."""
        series.waiting = True
        self._series.append(series)
        self._filled.set()
        return self.take() if len(self._series) > self._capacity else None

    async def wait(self) -> None:
        """Wait until there is something to send."""
        await self._filled.wait()

    def take(self) -> Series:
        """Take the oldest; what happens to it from now on is not sent with it any more."""
        series = self._series.popleft()
        series.waiting = False
        if not self._series:
            self._filled.clear()
        return series
