"""Where a controller is in its life, and what it records."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from manager.metrics import Metrics

__all__ = ["ControllerMetrics", "ControllerState"]


class ControllerState(Enum):
    """The states follow one another as they are listed; any may be followed by the last."""

    STANDBY = "standby"
    """Not started, for instance because another replica leads."""

    SYNCING = "syncing"
    """Waiting until its caches hold what exists."""

    RUNNING = "running"
    """Working through the queue."""

    STOPPING = "stopping"
    """Taking no more work; what is running may finish."""

    STOPPED = "stopped"
    """Nothing of it runs any more, and it does not start again."""


class ControllerMetrics:
    """Records what becomes of reconciles; each is a bound method, because they run for every one.

    All series are there from the start, at zero, so that an alert on an increase sees the first.
    """

    __slots__ = (
        "error",
        "event_latency",
        "failed",
        "failing",
        "panicked",
        "requeue",
        "requeue_after",
        "skipped",
        "success",
        "terminal",
        "time",
        "timed_out",
    )

    def __init__(self, metrics: Metrics, name: str, *, workers: int, active: Callable[[], float]) -> None:
        """`active` is asked whenever someone scrapes how many reconciles are running."""
        total = metrics.reconcile_total
        self.success = total.labels(name, "success").inc
        self.requeue = total.labels(name, "requeue").inc
        self.requeue_after = total.labels(name, "requeue_after").inc
        self.error = total.labels(name, "error").inc
        self.failed = metrics.reconcile_errors.labels(name).inc
        self.failing = metrics.failing_objects.labels(name).set_function
        self.terminal = metrics.terminal_reconcile_errors.labels(name).inc
        self.panicked = metrics.reconcile_panics.labels(name).inc
        self.timed_out = metrics.reconcile_timeouts.labels(name).inc
        self.skipped = metrics.reconciles_skipped.labels(name).inc
        self.time = metrics.reconcile_time.labels(name).observe
        self.event_latency = metrics.event_to_reconcile.labels(name).observe
        metrics.max_concurrent_reconciles.labels(name).set(workers)
        metrics.active_workers.labels(name).set_function(active)
