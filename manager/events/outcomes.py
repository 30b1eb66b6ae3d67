"""What became of events, for the metrics."""

from __future__ import annotations

from typing import Literal, get_args

from manager.metrics import Metrics

__all__ = ["Outcome", "Outcomes"]

Outcome = Literal[
    "created",  # sent, as a new Event object
    "updated",  # sent, as a higher count of an Event object
    "merged",  # goes with an occurrence that waits to be sent
    "filtered",  # one of too many about the same object; counted when another one is sent
    "overflow",  # dropped for newer ones, because too many were waiting
    "refused",  # the server said no
    "failed",  # the server could not be reached, or could not do it, several times
    "unsent",  # still waiting when the process ended
    "invalid",  # not an event that can be recorded
]


class Outcomes:
    """Counts each outcome; all of them are there from the start, at zero."""

    def __init__(self, metrics: Metrics) -> None:
        self._counters = {outcome: metrics.events_total.labels(outcome) for outcome in get_args(Outcome)}

    def count(self, outcome: Outcome, number: int = 1) -> None:
        """Count `number` events."""
        self._counters[outcome].inc(number)
