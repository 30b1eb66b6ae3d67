"""Access to JSON of any shape: a kind may have no schema, and a server may answer anything.

A value of an unexpected type counts as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson


def fields(found: Any, *names: str) -> Mapping[str, Any]:
    """Return the object under these nested names; empty if there is none."""
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def objects(found: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a list, without its other items."""
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def text(found: Any) -> str:
    """Return a string as it is, a number or boolean as JSON, and "" for anything else."""
    if isinstance(found, str):
        return found
    return orjson.dumps(found).decode() if isinstance(found, int | float) else ""


def number(found: Any, otherwise: int = 0) -> int:
    """Return a whole number as it is, and `otherwise` for anything else."""
    return found if isinstance(found, int) and not isinstance(found, bool) else otherwise


def event_time(event: Any) -> str:
    """When an Event happened last, in RFC 3339; empty if it does not say."""
    series = fields(event, "series").get("lastObservedTime")
    times = [series, *(fields(event).get(name) for name in ("lastTimestamp", "eventTime"))]
    times.append(fields(event, "metadata").get("creationTimestamp"))
    return next(filter(None, map(text, times)), "")
