"""What can be set per controller."""

from __future__ import annotations

from dataclasses import dataclass

from manager.controller.backoff import RateLimiter, RetryBackoff
from manager.controller.reconciler import Request

__all__ = ["ControllerOptions"]


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
