"""Access to fields that may be missing."""

from __future__ import annotations

from typing import Any

__all__ = ["child"]


def child(obj: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the object in a field; adds an empty one if the field is missing."""
    found: dict[str, Any] | None = obj.get(name)
    if found is None:
        found = obj[name] = {}
    return found
