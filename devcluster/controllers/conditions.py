"""Conditions of a status, with transition times that change only with the condition."""

from __future__ import annotations

from collections.abc import Sequence

from devcluster.controllers.client import Object

__all__ = ["find", "replaced", "set_condition", "without"]

Conditions = list[Object]


def find(conditions: Sequence[Object], kind: str) -> Object | None:
    """Return the condition of that type, or None."""
    return next((condition for condition in conditions if condition["type"] == kind), None)


def without(conditions: Sequence[Object], kind: str) -> Conditions:
    """Return the conditions of all other types."""
    return [condition for condition in conditions if condition["type"] != kind]


def replaced(conditions: Sequence[Object], new: Object) -> Conditions:
    """Return the conditions with `new` last, in place of the former one of its type."""
    return [*without(conditions, new["type"]), new]


def set_condition(conditions: Sequence[Object], new: Object) -> Conditions:
    """Return the conditions with `new`, unless the former one has the same status and reason.

    If only the reason differs, the former transition time stays.
    """
    former = find(conditions, new["type"])
    if former is not None and former["status"] == new["status"]:
        if former.get("reason") == new.get("reason"):
            return list(conditions)
        if "lastTransitionTime" in former:
            new = {**new, "lastTransitionTime": former["lastTransitionTime"]}
    return replaced(conditions, new)
