"""One Event object: a thing that happened, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from manager.events.reference import ObjectReference

__all__ = ["EventType", "Series"]

EventType = Literal["Normal", "Warning"]


@dataclass(slots=True, eq=False)
class Series:
    """The same thing happening to the same object, any number of times: one Event object on the server."""

    reference: ObjectReference
    type: EventType
    reason: str
    name: str
    """The name of the Event object."""
    first: datetime
    last: datetime
    message: str = ""
    count: int = 0
    stored: bool = False
    """Whether the server has the Event object, as far as we know."""
    waiting: bool = False
    """Whether it waits to be sent; what happens meanwhile goes with it."""

    def happened(self, message: str, now: datetime) -> None:
        """Count one more occurrence."""
        self.count += 1
        self.message = message
        self.last = now
