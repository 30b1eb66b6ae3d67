"""Helpers for the conditions of a status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Object = dict[str, Any]
Conditions = list[Object]


def find(conditions: Sequence[Object], kind: str) -> Object | None:
    """Return the condition whose type is `kind`, or None."""
    return next((condition for condition in conditions if condition.get("type") == kind), None)


def condition_of(obj: Object, kind: str) -> Object | None:
    """Return the object's condition whose type is `kind`, or None."""
    return find((obj.get("status") or {}).get("conditions") or (), kind)


def is_true(obj: Object, kind: str) -> bool:
    """Return whether the status of the object's condition `kind` is True."""
    return (condition_of(obj, kind) or {}).get("status") == "True"


def without(conditions: Sequence[Object], kind: str) -> Conditions:
    """Return the conditions without the one whose type is `kind`."""
    return [condition for condition in conditions if condition["type"] != kind]


def replaced(conditions: Sequence[Object], new: Object) -> Conditions:
    """Return the conditions with `new` at the end, without an older condition of the same type."""
    return [*without(conditions, new["type"]), new]


def set_condition(conditions: Sequence[Object], new: Object) -> Conditions:
    """Return the conditions with `new`, or unchanged if one has the same type, status and reason.

    If only the reason differs, `lastTransitionTime` keeps its value.
    """
    former = find(conditions, new["type"])
    if former is not None and former["status"] == new["status"]:
        if former.get("reason") == new.get("reason"):
            return list(conditions)
        if "lastTransitionTime" in former:
            new = {**new, "lastTransitionTime": former["lastTransitionTime"]}
    return replaced(conditions, new)


def update_condition(obj: Object, kind: str, status: str, reason: str, message: str, now: str) -> None:
    """Set a condition of an object; `lastTransitionTime` changes only together with the status."""
    new = {"type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message}
    found = condition_of(obj, kind)
    if found is None:
        state = obj.setdefault("status", {})
        state["conditions"] = [*(state.get("conditions") or ()), new]
        return
    if found.get("status") == status:
        new["lastTransitionTime"] = found.get("lastTransitionTime", now)
    found.update(new)
