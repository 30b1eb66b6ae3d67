"""A back-off per key."""

from __future__ import annotations

import random
from collections.abc import Hashable
from typing import Generic, TypeVar

from manager.backoff import ExponentialDelay

__all__ = ["KeyBackoff"]

K = TypeVar("K", bound=Hashable)


class KeyBackoff(Generic[K]):
    """Counts each key's failures, and says how long to wait after the next one.

    Holds an entry only for a key that has failed and not been forgotten since.
    """

    def __init__(
        self, *, base: float = 0.005, cap: float = 1000.0, jitter: float = 0.1, rng: random.Random
    ) -> None:
        """The delays are in seconds; `manager.backoff.ExponentialDelay` describes them."""
        self._delay = ExponentialDelay(base=base, cap=cap, jitter=jitter, rng=rng)
        self._failures: dict[K, int] = {}

    def __len__(self) -> int:
        """How many keys have failed and not been forgotten."""
        return len(self._failures)

    def next_delay(self, key: K) -> float:
        """Count a failure of `key`; answers the seconds to wait before it is tried again."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return self._delay(failures)

    def retries(self, key: K) -> int:
        """How often `key` has failed since it was last forgotten."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """Start afresh with `key`."""
        self._failures.pop(key, None)
