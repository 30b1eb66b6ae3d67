"""Equality of JSON values, in which true and 1 differ."""

from __future__ import annotations

from typing import Any


def equal(one: Any, other: Any) -> bool:
    """Return whether JSON values are equal; in contrast to Python, True is not 1."""
    return one is other or (bool(one == other) and _same_types(one, other))


def _same_types(one: Any, other: Any) -> bool:
    """Return whether two values, which are equal in Python, have booleans in the same places."""
    if isinstance(one, dict):
        return all(_same_types(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return all(map(_same_types, one, other))
    return isinstance(one, bool) == isinstance(other, bool)
