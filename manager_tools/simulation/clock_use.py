"""Work that operators do because time has passed: schedules, timers, times to live.

They write something then, although no other client has changed anything. That is no sign of unrest if the
operator has asked for the time, or has a method with `@every`, and if time alone has caused the reconcile.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from manager.telemetry.runs import current_record
from manager_tools.simulation.guards import is_operators

if TYPE_CHECKING:
    from devcluster.storage import Change
    from manager.operator import AnyOperator

__all__ = ["ClockUse"]

_BY_TIME = frozenset(("requeue", "timer", "back-off", "resync"))
"""Triggers that no change causes."""
_TIMER = "timer"
_CONSEQUENCES = 660.0
"""Virtual seconds in which a write may have consequences: a Deployment gives up its progress after 600."""
_OF_THE_RUNTIME = ("manager.util.clock", "manager_tools.simulation.loop")


class ClockUse:
    """Whether the operators of a world ask for the time, and what they write because of it."""

    def __init__(self, operators: Sequence[AnyOperator]) -> None:
        timers = [each for operator in operators for each in operator.timers]
        self._has_common_timers = any(not each.for_each for each in timers)
        self.is_read = bool(timers)
        """Whether an operator has asked for the time, or has a method with `@every`."""
        self.has_written = False
        """Whether anything was written because of the time."""
        self.resources: set[str] = set()
        """The kinds of which objects were created or deleted because of the time."""
        self._runs: set[str] = set()
        self._last = -_CONSEQUENCES

    def was_asked(self) -> None:
        """Remember whether an operator has just asked the loop for the time of day."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__") in (*_OF_THE_RUNTIME, __name__):
            frame = frame.f_back
        if is_operators(frame.f_code.co_filename):
            self.is_read = True
            if (run := current_record()) is not None:
                self._runs.add(run.id)

    def causes_write(self) -> bool:
        """Return whether time alone has caused the reconcile that the calling task belongs to."""
        run = current_record()
        if run is None:
            return self._has_common_timers
        triggers = {each.why for each in run.triggers}
        return bool(triggers) and triggers <= _BY_TIME and (_TIMER in triggers or run.id in self._runs)

    def wrote(self, now: float, change: Change) -> None:
        """Take note of a write that time alone has caused."""
        self.has_written = True
        self._last = now
        if change.old is None or change.new is None:
            self.resources.add(f"{change.key.plural}.{change.key.group}".rstrip("."))

    def explains(self, now: float) -> bool:
        """Return whether what changes now may be a consequence of such a write."""
        return now - self._last <= _CONSEQUENCES
