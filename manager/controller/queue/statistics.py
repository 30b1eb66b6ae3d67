"""What a queue looks like at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from manager.controller.priority import Priority

__all__ = ["QueueStatistics"]


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
