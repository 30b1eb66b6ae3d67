"""The work of one controller: keys, each in the queue once, with delays and back-off."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["WorkQueue"]

BACKOFF_START = 0.005
BACKOFF_LIMIT = 30.0
SHORTEST_DELAY = 0.001

KeyT = TypeVar("KeyT", bound=Hashable)


class WorkQueue(Generic[KeyT]):
    """Keys to work on, first in, first out.

    A key added while it is worked on comes again when that is `done`; a key added twice is there once.
    `batch_period`, seconds, is how long a key waits for others like it before it is ready.
    """

    def __init__(self, *, batch_period: float = 0.0) -> None:
        self._batch_period = batch_period
        self._ready: deque[KeyT] = deque()
        self._waiting: set[KeyT] = set()
        self._working: set[KeyT] = set()
        self._timers: dict[KeyT, asyncio.TimerHandle] = {}
        self._failures: dict[KeyT, int] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, key: KeyT) -> None:
        """Have the key worked on, soon."""
        if self._batch_period:
            self.add_after(key, self._batch_period)
        else:
            self._add(key)

    def add_after(self, key: KeyT, seconds: float) -> None:
        """Have it worked on after so long, or earlier when it is added for an earlier time."""
        loop = asyncio.get_running_loop()
        # A timer may fire a moment before its time: whoever then finds a rest of nanoseconds must not spin.
        due = loop.time() + max(seconds, SHORTEST_DELAY)
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(due, self._due, key)

    def retry(self, key: KeyT) -> None:
        """Have it worked on again, later each time until `forget`."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, min(BACKOFF_START * 2.0 ** min(failures, 30), BACKOFF_LIMIT))

    def forget(self, key: KeyT) -> None:
        """The key gives no trouble any more."""
        self._failures.pop(key, None)

    async def get(self) -> KeyT:
        """The next key; it is being worked on until `done`."""
        while not self._ready:
            self._wake.clear()
            await self._wake.wait()
        key = self._ready.popleft()
        self._waiting.discard(key)
        self._working.add(key)
        return key

    def done(self, key: KeyT) -> None:
        """Work on the key has ended, one way or the other."""
        self._working.discard(key)
        if key in self._waiting:
            self._enqueue(key)

    @property
    def idle(self) -> bool:
        """Whether nothing is ready or worked on; delayed keys do not count."""
        return not self._ready and not self._working

    def close(self) -> None:
        """Drop the timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _due(self, key: KeyT) -> None:
        del self._timers[key]
        self._add(key)

    def _add(self, key: KeyT) -> None:
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._working:
            self._enqueue(key)

    def _enqueue(self, key: KeyT) -> None:
        self._ready.append(key)
        self._wake.set()
