"""Delays before another attempt: exponential, jittered and bounded."""

from __future__ import annotations

import math
import random


class ExponentialDelay:
    """The delay for a number of failures.

    The first is about `base` seconds, each further delay is twice the one before, and none is longer than
    `cap`. Jitter spreads each delay over a band of `jitter` (0.1 is ten percent), even at the cap.
    """

    def __init__(self, *, base: float, cap: float, jitter: float = 0.1, rng: random.Random) -> None:
        """Raise `ValueError` unless 0 < base <= cap and jitter >= 0, all of them finite."""
        if not 0 < base <= cap < math.inf or not 0 <= jitter < math.inf:
            told = f"base {base}, cap {cap} and jitter {jitter}"
            raise ValueError(f"back-off needs 0 < base <= cap and jitter >= 0, not {told}")
        self._base = base
        self._jitter = jitter
        self._random = rng.random
        # The band is above the unjittered delay, so that delay must stay this far below the cap.
        self._longest = cap / (1 + jitter)
        # From this number on, the delay no longer grows; a higher power could overflow.
        self._steps = math.ceil(math.log2(cap / base))

    def __call__(self, failures: int) -> float:
        """Return the seconds to wait after a failure that follows `failures` earlier failures."""
        delay = min(self._base * 2.0 ** min(failures, self._steps), self._longest)
        return delay * (1 + self._jitter * self._random())


class Backoff(ExponentialDelay):
    """The delays of one activity that is retried until it succeeds: a watch, an election, a connection."""

    failures = 0

    def next(self) -> float:
        """Count a failure; return the seconds to wait before the next attempt."""
        self.failures += 1
        return self(self.failures - 1)

    def reset(self) -> None:
        """Forget the failures after a success."""
        self.failures = 0
