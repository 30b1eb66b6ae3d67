"""JSON merge patches (RFC 7386)."""

from __future__ import annotations

from typing import Any

__all__ = ["merge_patch"]


def merge_patch(document: Any, patch: Any) -> Any:
    """Return the patched document; neither argument is changed, and unchanged parts are shared."""
    if not isinstance(patch, dict):
        return _without_nulls(patch)
    if not isinstance(document, dict):
        return _without_nulls(patch)
    merged = dict(document)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif merged.get(name) is None:
            merged[name] = _without_nulls(value)
        else:
            merged[name] = merge_patch(merged[name], value)
    return merged


def _without_nulls(value: Any) -> Any:
    """Copy a value without fields that are null; nulls in lists stay."""
    if isinstance(value, dict):
        return {name: _without_nulls(below) for name, below in value.items() if below is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
