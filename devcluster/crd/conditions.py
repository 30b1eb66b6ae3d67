"""Conditions in a definition's status."""

from __future__ import annotations

from typing import Any

__all__ = ["find_condition", "is_established", "set_condition"]

Object = dict[str, Any]


def find_condition(obj: Object, kind: str) -> Object | None:
    """Return the condition of that type, or None."""
    conditions: list[Object] = (obj.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each.get("type") == kind), None)


def is_established(obj: Object) -> bool:
    """Return whether the definition is established."""
    found = find_condition(obj, "Established")
    return found is not None and found.get("status") == "True"


def set_condition(obj: Object, kind: str, status: str, reason: str, message: str, now: str) -> None:
    """Set a condition; the time of transition moves when the status does."""
    condition = {
        "type": kind,
        "status": status,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
    found = find_condition(obj, kind)
    if found is None:
        state = obj.setdefault("status", {})
        state["conditions"] = [*(state.get("conditions") or ()), condition]
        return
    if found.get("status") == status:
        condition["lastTransitionTime"] = found.get("lastTransitionTime", now)
    found.update(condition)
