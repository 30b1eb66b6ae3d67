"""Conditions of an operator's own objects."""

from __future__ import annotations

from apis.meta import Condition, ConditionStatus, Resource

__all__ = ["condition"]


def condition(obj: Resource, kind: str, status: ConditionStatus, reason: str, message: str = "") -> Condition:
    """A condition of type `kind` that tells of the spec `obj` has now."""
    generation = obj.metadata.generation
    return Condition(type=kind, status=status, reason=reason, message=message, observed_generation=generation)
