"""JSON texts with duplicate fields in an object, which field validation reports."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson


class Repeated(dict[str, Any]):
    """Object whose JSON text has a duplicate field; the last value counts."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        """Set up the object; `pairs` are all its fields, in order."""
        super().__init__(pairs)
        self.pairs = pairs


def with_repeated(raw: bytes | str, document: Any) -> Any | None:
    """Parse `raw` again; each object with a duplicate field becomes a `Repeated`.

    `document` is the result of parsing `raw` with orjson. Returns None if no object has a duplicate field.
    """
    if _is_compact(raw, document):
        return None  # the fast path for most clients' bodies
    found = False

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        built = dict(pairs)
        if len(built) == len(pairs):
            return built
        found = True
        return Repeated(pairs)

    try:
        document = json.loads(raw, object_pairs_hook=build)
    except ValueError:  # Python refuses integers with thousands of digits
        document = json.loads(raw, object_pairs_hook=build, parse_int=float)
    return document if found else None


def _is_compact(raw: bytes | str, document: Any) -> bool:
    """Return whether `raw` equals orjson's output for `document`; if so, `raw` has no duplicate fields."""
    try:
        return orjson.dumps(document) == raw.strip()
    except orjson.JSONEncodeError:  # orjson encodes less nesting than it parses
        return False


def duplicate_fields(raw: bytes | str, document: Any) -> list[str]:
    """Return the findings about duplicate fields, in order: `duplicate field "spec.replicas"`.

    `document` is the result of parsing `raw` with orjson.
    """
    marked = with_repeated(raw, document)
    if marked is None:
        return []
    return list(dict.fromkeys(f'duplicate field "{path}"' for path in _walk(marked, "")))


def _walk(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        seen = set()
        for name, item in value.pairs if isinstance(value, Repeated) else value.items():
            below = f"{path}.{name}" if path else name
            if name in seen:
                yield below
            seen.add(name)
            yield from _walk(item, below)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, f"{path}[{index}]")
