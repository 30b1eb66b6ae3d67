"""Fields of objects that may not be there."""

from __future__ import annotations

from typing import Any

__all__ = ["child"]


def child(obj: dict[str, Any], name: str) -> dict[str, Any]:
    """The object in a field, made if there is none."""
    found: dict[str, Any] | None = obj.get(name)
    if found is None:
        found = obj[name] = {}
    return found
