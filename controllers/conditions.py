"""Conditions of an operator's own objects."""

from __future__ import annotations

from collections.abc import Iterable

from manager import clock
from manager.api import Condition, ConditionStatus, Resource, find_condition

__all__ = ["condition", "is_news"]


def condition(obj: Resource, kind: str, status: ConditionStatus, reason: str, message: str = "") -> Condition:
    """A condition of type `kind` that tells of the spec `obj` has now, and holds as of now if it is news."""
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        observed_generation=obj.metadata.generation,
        last_transition_time=clock.now().replace(microsecond=0),
    )


def is_news(conditions: Iterable[Condition], kind: str, message: str) -> bool:
    """Whether the condition of type `kind` does not say so yet, so that an Event about it is due."""
    said = find_condition(conditions, kind)
    return said is None or message not in said.message
