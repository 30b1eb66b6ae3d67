"""Limits for the rate of events."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable


class TokenBucket:
    """A limiter to `rate` tokens per second, and up to `burst` at once after a quiet time.

    Before the first `acquire`, it has only the time at which it is full again: one per object costs little.
    """

    __slots__ = ("_full_at", "_interval", "_slack", "_turns")

    def __init__(self, *, rate: float, burst: int = 1) -> None:
        """Create a full bucket. Raises `ValueError` for an invalid rate, or a burst below 1."""
        if not 0 < rate < math.inf or burst < 1:
            raise ValueError(f"a token bucket needs a positive rate and burst, not {rate} and {burst}")
        self._interval = 1 / rate
        self._slack = (burst - 1) * self._interval
        self._full_at = -math.inf
        self._turns: asyncio.Lock | None = None

    def try_acquire(self) -> bool:
        """Take a token if there is one; return whether there was one."""
        now = asyncio.get_running_loop().time()
        if self._full_at - now > self._slack:
            return False
        self._full_at = max(self._full_at, now) + self._interval
        return True

    def shortage(self) -> float:
        """Return the seconds until there is a token; 0 or less if there is one."""
        return self._full_at - asyncio.get_running_loop().time() - self._slack

    async def acquire(self) -> None:
        """Take a token; callers wait in the order of their calls; a cancelled one takes no token."""
        self._turns = self._turns or asyncio.Lock()
        async with self._turns:
            now = asyncio.get_running_loop().time()
            if (shortage := self.shortage()) > 0:
                await asyncio.sleep(shortage)
            self._full_at = max(self._full_at, now) + self._interval


class Repeats:
    """A counter of a repeated event, which is reported at once, and then less and less often, with a count.

    Reports follow after 1, 2, 4 and 8 minutes, and then every 15 minutes. The intervals are
    short again after 15 minutes in which a report was due, but nothing occurred.
    """

    __slots__ = ("_interval", "_next", "_untold")

    _FIRST = 60.0
    _LONGEST = 900.0

    def __init__(self) -> None:
        self._interval = self._FIRST
        self._next = -math.inf
        self._untold = 0

    def count(self) -> int | None:
        """Count an occurrence; return the number since the last report if a report is due, else None."""
        self._untold += 1
        now = asyncio.get_running_loop().time()
        if now < self._next:
            return None
        quiet = now - self._next
        self._interval = self._FIRST if quiet > self._LONGEST else min(2 * self._interval, self._LONGEST)
        self._next = now + self._interval
        untold, self._untold = self._untold, 0
        return untold


class Lines:
    """An average limit per minute for log lines that other programs can cause as often as they like."""

    __slots__ = ("_bucket", "_untold")

    def __init__(self, *, per_minute: int) -> None:
        self._bucket = TokenBucket(rate=per_minute / 60, burst=per_minute)
        self._untold = 0

    def log(self, write: Callable[..., object], event: str, **fields: object) -> bool:
        """Call `write`, a logger's method, with the number of omitted lines; return False above the limit."""
        if not self._bucket.try_acquire():
            self._untold += 1
            return False
        untold, self._untold = self._untold, 0
        write(event, **fields, **({"untold": untold} if untold else {}))
        return True
