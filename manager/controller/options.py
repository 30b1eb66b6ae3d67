"""What can be set per controller: its limits, and when a reconcile may be tried again."""

from __future__ import annotations

import random
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from manager.backoff import ExponentialDelay
from manager.controller.reconciler import Request

K = TypeVar("K", bound=Hashable)
C_contra = TypeVar("C_contra", bound=Hashable, contravariant=True)


class RateLimiter(Protocol):
    """Says when the next reconcile may start. `manager.rate_limit.TokenBucket` is one."""

    async def acquire(self) -> None:
        """Return when one may. Whoever waits may be cancelled. What it raises ends the process."""


class RetryBackoff(Protocol[C_contra]):
    """Says how long a key waits after a failure. `KeyBackoff` is one.

    Its methods are called in the event loop, and must be quick. What they raise, and a delay
    that is no number of seconds, ends the process.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """How a controller works through its queue. All durations are in seconds.

    What is set here, in code, is the default of the process: a flag goes before the environment, that before
    the configuration file, and that before this.
    """

    max_concurrent_reconciles: int = 8
    """How many objects are worked on at once. One object is never worked on twice at once.

    A reconcile spends almost all of its time waiting for the API server, and a waiting one costs nothing
    here; eight keep a small API server busy. Many more only wait in its queue instead of ours, where a
    fresh change could overtake them, and count against the process's share of it."""

    reconcile_timeout: float | None = 300.0
    """After so long a reconcile is cancelled, counted and retried; None for never.

    Every request has a deadline of its own, far shorter than this: this is for what hangs elsewhere, and
    would occupy its worker for good. A reconcile that needs longer belongs in several, by `requeue_after`."""

    rate_limit: float | None = None
    """Reconciles per second at most, with bursts of what one second allows; None for no limit.

    The back-off is not enough where each reconcile costs money or quota elsewhere. Too low a limit makes the
    queue grow without end."""

    rate_limiter: RateLimiter | None = None
    """A limit of another kind, in place of `rate_limit`; several controllers that use up one quota may share
    it."""

    backoff_base: float = 0.005
    """Wait after an object's first failure; it doubles with each further one."""

    backoff_cap: float = 1000.0
    """The longest wait between two attempts at an object that goes on failing."""

    backoff: RetryBackoff[Request] | None = None
    """Waits of another kind than those that double, in place of `backoff_base` and `backoff_cap`. It counts
    the failures of one controller: each has its own."""

    resync_period: float | None = 36_000.0
    """Reconcile every object once in so long, ten hours by default, at low priority; None for never.

    Watches miss nothing, so this is for what no watch tells: effects outside of the cluster, and faults of
    a program, which forgets an object or makes a wrong request. The period is jittered, and what is asked for
    comes over a tenth of it."""

    needs_leader_election: bool = True
    """Run only in the replica that is the leader. False is for reconcilers that write nothing shared: in
    several replicas at once they would work against each other."""

    def __post_init__(self) -> None:
        """Raises `ValueError` naming the option that is out of range."""
        if self.max_concurrent_reconciles < 1:
            raise ValueError(
                f"max_concurrent_reconciles must be at least 1, not {self.max_concurrent_reconciles}"
            )
        if self.rate_limit is not None and self.rate_limiter is not None:
            raise ValueError("rate_limit and rate_limiter are two limits; set one of them")
        for name in ("reconcile_timeout", "rate_limit", "resync_period"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be above 0, or None, not {value}")
        if not 0 < self.backoff_base <= self.backoff_cap:
            raise ValueError(
                f"backoff_base must be above 0 and at most backoff_cap, not {self.backoff_base}"
                f" with backoff_cap {self.backoff_cap}"
            )
