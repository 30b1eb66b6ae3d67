"""Conditions of a status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Object = dict[str, Any]
Conditions = list[Object]


def find(conditions: Sequence[Object], kind: str) -> Object | None:
    """Return the condition of that type, or None."""
    return next((condition for condition in conditions if condition.get("type") == kind), None)


def condition_of(obj: Object, kind: str) -> Object | None:
    """Return an object's condition of that type, or None."""
    return find((obj.get("status") or {}).get("conditions") or (), kind)


def is_true(obj: Object, kind: str) -> bool:
    """Return whether an object's condition of that type is True."""
    return (condition_of(obj, kind) or {}).get("status") == "True"


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


def update_condition(obj: Object, kind: str, status: str, reason: str, message: str, now: str) -> None:
    """Set a condition of an object in its place; the time of transition moves when the status does."""
    new = {"type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message}
    found = condition_of(obj, kind)
    if found is None:
        state = obj.setdefault("status", {})
        state["conditions"] = [*(state.get("conditions") or ()), new]
        return
    if found.get("status") == status:
        new["lastTransitionTime"] = found.get("lastTransitionTime", now)
    found.update(new)
