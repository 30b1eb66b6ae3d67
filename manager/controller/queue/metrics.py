"""What a queue looks like from outside: at one moment, and as series of the metric families."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from manager.controller.reconciler import Priority
from manager.metrics import Metrics

__all__ = ["QueueMetrics", "QueueState", "QueueStatistics"]


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """The state of a `WorkQueue`. Durations are in seconds."""

    ready: Mapping[Priority, int]
    """Keys that a worker could take now."""

    delayed: int
    """Keys whose time has not come."""

    processing: int
    """Keys that are being worked on."""

    dirty: int
    """Keys that are being worked on and will be worked on again."""

    backing_off: int
    """Keys that have failed and not succeeded since."""

    idle_getters: int
    """Workers waiting for a key."""

    unfinished: float
    """Sum of the ages of the work in progress."""

    longest_running: float
    """Age of the oldest work in progress."""


class QueueState(Protocol):
    """What is read off the queue when someone scrapes, so that nobody has to keep it up to date."""

    def depth(self, priority: Priority) -> int:
        """Keys waiting at a priority."""

    def unfinished(self) -> float:
        """Sum of the ages of the work in progress, in seconds."""

    def longest_running(self) -> float:
        """Age of the oldest work in progress, in seconds."""


class QueueMetrics:
    """Records what happens to a queue; each is a bound method, because they run for every key."""

    __slots__ = ("_metrics", "_name", "added", "retried", "waited", "worked")

    added: Callable[[], None]
    retried: Callable[[], None]
    waited: Callable[[float], None]
    worked: Callable[[float], None]

    def __init__(self, metrics: Metrics, name: str) -> None:
        """`name` is the queue's, which is its controller's."""
        self._metrics = metrics
        self._name = name
        self.added = metrics.queue_adds.labels(name, name).inc
        self.retried = metrics.queue_retries.labels(name, name).inc
        self.waited = metrics.queue_latency.labels(name, name).observe
        self.worked = metrics.work_duration.labels(name, name).observe

    def expose(self, queue: QueueState) -> None:
        """Show the state of `queue` whenever someone scrapes."""
        metrics, name = self._metrics, self._name
        for priority in Priority:
            gauge = metrics.queue_depth.labels(name, name, str(int(priority)))
            gauge.set_function(partial(queue.depth, priority))
        metrics.unfinished_work.labels(name, name).set_function(queue.unfinished)
        metrics.longest_running.labels(name, name).set_function(queue.longest_running)
