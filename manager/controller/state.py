"""Where a controller is in its life, and what it looks like."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from manager.controller.queue import QueueStatistics

__all__ = ["ControllerState", "ControllerStatistics"]


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


@dataclass(frozen=True, slots=True)
class ControllerStatistics:
    """A controller at one moment."""

    state: ControllerState

    active: int
    """Reconciles that are running."""

    queue: QueueStatistics | None
    """None before it starts."""
