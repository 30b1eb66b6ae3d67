"""When a reconcile may be tried again, and when one may start at all."""

from __future__ import annotations

import random
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

from manager.backoff import ExponentialDelay

__all__ = ["KeyBackoff", "RateLimiter", "RetryBackoff"]

K = TypeVar("K", bound=Hashable)
C_contra = TypeVar("C_contra", bound=Hashable, contravariant=True)


class RateLimiter(Protocol):
    """Says when the next reconcile may start. `manager.rate_limit.TokenBucket` is one."""

    async def acquire(self) -> None:
        """Return when one may. Whoever waits may be cancelled. What it raises ends the process."""


class RetryBackoff(Protocol[C_contra]):
    """Says how long a key waits after a failure. `KeyBackoff` is one.

    Its methods are called in the event loop, and must be quick. A delay that is none, and what they raise,
    ends the process.
    """

    def __len__(self) -> int:
        """How many keys have failed and not been forgotten."""

    def next_delay(self, key: C_contra, *, now: float) -> float:
        """Note a failure of `key` at the loop's time `now`; answers the seconds until it is tried again.

        It may be tried before they are over, because something has changed, and fail again.
        """

    def retries(self, key: C_contra) -> int:
        """How many waits of `key` have begun since it was last forgotten."""

    def forget(self, key: C_contra) -> None:
        """`key` has succeeded. Called after every reconcile that did, of keys without a failure too."""


class KeyBackoff(Generic[K]):
    """Counts each key's failures, and says how long to wait after the next one.

    The wait grows once it has been waited out. A failure before that, of an attempt that something else has
    asked for, leaves the time of the next one as it is: else an object on which much happens during an outage
    of seconds would wait for a quarter of an hour after it.

    Holds an entry only for a key that has failed and not been forgotten since.
    """

    def __init__(
        self, *, base: float = 0.005, cap: float = 1000.0, jitter: float = 0.1, rng: random.Random
    ) -> None:
        """The delays are in seconds; `manager.backoff.ExponentialDelay` describes them."""
        self._delay = ExponentialDelay(base=base, cap=cap, jitter=jitter, rng=rng)
        # How often each key has failed, and until when it waits.
        self._failures: dict[K, tuple[int, float]] = {}

    def __len__(self) -> int:
        """How many keys have failed and not been forgotten."""
        return len(self._failures)

    def next_delay(self, key: K, *, now: float) -> float:
        """Note a failure of `key` at the time `now`; answers the seconds to wait before it is tried again."""
        failures, due = self._failures.get(key, (0, now))
        if now < due:
            return due - now
        delay = self._delay(failures)
        self._failures[key] = (failures + 1, now + delay)
        return delay

    def retries(self, key: K) -> int:
        """How many waits of `key` have begun since it was last forgotten."""
        return self._failures.get(key, (0, 0.0))[0]

    def forget(self, key: K) -> None:
        """Start afresh with `key`."""
        self._failures.pop(key, None)
