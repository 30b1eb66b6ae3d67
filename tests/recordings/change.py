"""Differences between two JSON values, such as a request and its answer."""

from __future__ import annotations

import json
from typing import Any

GONE = "<gone>"
"""Value of a removed item."""
INSTEAD = "<instead>"
"""Key of an object that replaces a value completely."""


def change(before: Any, after: Any, *, ordered: bool = False) -> Any:
    """Return the values of `after` that differ; a list becomes a map by index if that is shorter.

    With `ordered`, an object is returned completely if `changed` could not restore the order of its keys.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        found = {key: GONE for key in before if key not in after}
        for key, value in after.items():
            if key not in before:
                found[key] = value
            elif not _same(before[key], value, ordered):
                found[key] = change(before[key], value, ordered=ordered)
        return {INSTEAD: after} if ordered and [*changed(before, found)] != [*after] else found
    if isinstance(before, list) and isinstance(after, list):
        found = change(_numbered(before), _numbered(after), ordered=ordered)
        return min((found, after), key=lambda each: len(json.dumps(each)))
    return {INSTEAD: after} if isinstance(after, dict) and isinstance(before, dict | list) else after


def changed(before: Any, difference: Any) -> Any:
    """Apply to `before` a difference that `change` has returned; return the result."""
    if not isinstance(difference, dict) or not isinstance(before, dict | list):
        return difference
    if INSTEAD in difference:
        return difference[INSTEAD]
    if isinstance(before, list):
        return [*changed(_numbered(before), difference).values()]
    both = {**before, **{key: changed(before.get(key), each) for key, each in difference.items()}}
    return {key: each for key, each in both.items() if each != GONE}


def _numbered(values: list[Any]) -> dict[str, Any]:
    return {str(number): each for number, each in enumerate(values)}


def _same(left: Any, right: Any, ordered: bool) -> bool:
    """Compare two JSON values, for which 1, 1.0 and true are different."""
    return json.dumps(left, sort_keys=not ordered) == json.dumps(right, sort_keys=not ordered)
