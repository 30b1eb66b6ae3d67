"""JSON merge patches (RFC 7386): what to send so that one document becomes another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["merge_diff"]


def merge_diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the smallest merge patch that turns `before` into `after`; empty when they are equal.

    Objects are compared field by field, a field that vanished becomes null (which deletes it), and lists
    are replaced whole, because a merge patch has no other way to change one.
    """
    patch: dict[str, Any] = {}
    for name, new in after.items():
        if name not in before:
            patch[name] = new
            continue
        old = before[name]
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            nested = merge_diff(old, new)
            if nested:
                patch[name] = nested
        elif old != new or type(old) is not type(new):
            # Python calls True == 1 and 1 == 1.0 equal; JSON readers do not.
            patch[name] = new
    for name in before:
        if name not in after:
            patch[name] = None
    return patch
