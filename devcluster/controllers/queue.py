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
LONG, PAUSE_FACTOR, LONGEST_PAUSE = 0.005, 5.0, 0.5
"""Seconds of work after which a key pauses, the pause's ratio to the work, and its maximum seconds."""

KeyT = TypeVar("KeyT", bound=Hashable)


class WorkQueue(Generic[KeyT]):
    """A queue of keys, first in, first out.

    A key added during its work comes again after `done`; a key added twice is queued once. `batch_period` is
    the seconds that a key waits for further changes before it is ready.
    """

    def __init__(self, *, batch_period: float = 0.0) -> None:
        self._batch_period = batch_period
        self._ready: deque[KeyT] = deque()
        self._waiting: set[KeyT] = set()
        self._working: set[KeyT] = set()
        self._timers: dict[KeyT, tuple[float, asyncio.Handle]] = {}
        self._failures: dict[KeyT, int] = {}
        self._pauses: dict[KeyT, float] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, key: KeyT) -> None:
        """Have the key worked on, soon."""
        delay = self._pauses.get(key, self._batch_period)
        if delay:
            self.add_after(key, delay)
        else:
            self._add(key)

    def add_after(self, key: KeyT, seconds: float) -> None:
        """Have it worked on after so long, or earlier when it is added for an earlier time."""
        loop = asyncio.get_running_loop()
        # A timer may fire slightly early; the minimum delay avoids a loop over nanoseconds.
        due = loop.time() + max(seconds, SHORTEST_DELAY)
        timer = self._timers.get(key)
        if timer is not None:
            earlier, handle = timer
            if earlier <= due:
                return
            handle.cancel()
        # The time is stored with the handle, because uvloop's handle loses it shortly before it is due.
        self._timers[key] = due, loop.call_at(due, self._due, key)

    def retry(self, key: KeyT) -> None:
        """Queue the key again, with a delay that grows with each call until `forget`."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, min(BACKOFF_START * 2.0 ** min(failures, 30), BACKOFF_LIMIT))

    def forget(self, key: KeyT) -> None:
        """Reset the key's failure count."""
        self._failures.pop(key, None)

    async def get(self) -> KeyT:
        """Return the next key; it is in progress until `done`."""
        while not self._ready:
            self._wake.clear()
            await self._wake.wait()
        key = self._ready.popleft()
        self._waiting.discard(key)
        self._working.add(key)
        return key

    def done(self, key: KeyT, *, took: float = 0.0) -> None:
        """End the work on a key that took `took` seconds, with or without success.

        A slow key waits in proportion before its next turn: the owner of a thousand pods is not reconciled
        for each of them.
        """
        self._working.discard(key)
        if took > LONG:
            self._pauses[key] = min(took * PAUSE_FACTOR, LONGEST_PAUSE)
        else:
            self._pauses.pop(key, None)
        if key in self._waiting:
            if key in self._pauses:
                self._waiting.discard(key)
                self.add(key)
            else:
                self._enqueue(key)

    @property
    def idle(self) -> bool:
        """Whether no key is ready or in progress; delayed keys do not count."""
        return not self._ready and not self._working

    def close(self) -> None:
        """Drop the timers."""
        for _, handle in self._timers.values():
            handle.cancel()
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
