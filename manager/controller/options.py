"""Options of a controller: its limits, and when a reconcile is retried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from manager.controller.queue import RetryBackoff
from manager.controller.reconciler import Request


class RateLimiter(Protocol):
    """A limiter that decides when the next reconcile may start, such as `TokenBucket`."""

    async def acquire(self) -> None:
        """Wait for permission to start; waiters may be cancelled. An exception from here ends the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """How a controller works through its queue. All durations are in seconds.

    These are the defaults of the process; flags, environment variables and the configuration file take
    precedence, in this order.
    """

    max_concurrent_reconciles: int = 8
    """How many objects are reconciled at once; never one object twice at once.

    A reconcile mostly waits for the API server, and a waiting one costs nothing here. Eight keep a small API
    server busy. Many more would only wait in the server's queue instead of ours, where a new change could
    overtake them.
    """

    reconcile_timeout: float | None = 300.0
    """When a reconcile is cancelled, counted and retried; None for never.

    Every request has its own, much shorter deadline: this is for what hangs elsewhere, and would occupy its
    worker forever. Split a longer reconcile with `requeue_after`.
    """

    rate_limit: float | None = None
    """Maximum of reconciles per second, with bursts of one second's worth; None for no limit.

    Use it if each reconcile costs money or quota elsewhere. If the limit is too low, the queue grows without
    end.
    """

    max_concurrent_rollouts: int | None = None
    """How many objects may replace pods at once because of another version or other settings of the program;
    None for no limit.

    The next object is updated when the Deployments, StatefulSets and DaemonSets of one are rolled out and
    available. If that never happens, the others stay as they are. A change of an object's spec does not wait.
    """

    rate_limiter: RateLimiter | None = None
    """Another rate limiter, instead of `rate_limit`; controllers with a common quota may share it."""

    backoff_base: float = 0.005
    """Wait after an object's first failure; it doubles with each further one."""

    backoff_cap: float = 1000.0
    """The longest wait between two attempts at an object that keeps failing."""

    backoff: RetryBackoff[Request] | None = None
    """Another back-off, instead of `backoff_base` and `backoff_cap`. Do not share it between controllers."""

    resync_period: float | None = 36_000.0
    """Reconcile every object once in this period, by default ten hours, at low priority; None for never.

    Watches miss nothing. This is for what no watch shows, such as effects outside of the cluster, and for
    bugs of a program that forgets an object. The period has jitter, and a resync is spread over a tenth of
    it.
    """

    needs_leader_election: bool = True
    """Run only in the leader. Use False only for reconcilers that write nothing shared: several replicas run
    them at once.
    """

    def __post_init__(self) -> None:
        """Check the values; raises `ValueError` that names the option that is out of range."""
        if self.max_concurrent_reconciles < 1:
            raise ValueError(
                f"max_concurrent_reconciles must be at least 1, not {self.max_concurrent_reconciles}"
            )
        if self.max_concurrent_rollouts is not None and self.max_concurrent_rollouts < 1:
            raise ValueError(
                f"max_concurrent_rollouts must be at least 1, or None, not {self.max_concurrent_rollouts}"
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
