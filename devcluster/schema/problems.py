"""Problems found by validation, and the paths of fields."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

from devcluster.errors import FieldError
from devcluster.schema.node import Schema

_PART = re.compile(r"'(?:\\.|[^'\\])*'|[.\[\]]|[^.\[\]']+|'")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class FieldPathError(ValueError):
    """Error for a path that names no node of a schema."""


def resolve_field_path(path: str, schema: Schema, *, brackets: bool = True) -> tuple[str, Schema]:
    """Resolve a path in a schema; return it without the leading dot, as errors show it, and its node.

    Raises:
        FieldPathError: the schema has no node at the path; the message is the server's.
    """
    parts = iter(_PART.findall(path))
    text = ""
    for part in parts:
        if part == "[":
            if not brackets:
                raise FieldPathError("array notation is not allowed")
            name = _quoted(_following(parts))
            closing = _following(parts)
            if closing != "]":
                raise FieldPathError(f"expected ] but got {closing}")
        elif part == ".":
            name = _following(parts)
        else:
            raise FieldPathError(f"expected [ or . but got: {part}")
        named = bool(schema.properties)
        schema = _step(schema, name)
        text += f".{name}" if named else f"[{name}]"
    return text.removeprefix("."), schema


def _following(parts: Iterator[str]) -> str:
    found = next(parts, None)
    if found is None:
        raise FieldPathError("unexpected end of JSON path")
    return found


def _quoted(part: str) -> str:
    if len(part) < 2 or part[0] != "'" or part[-1] != "'":  # noqa: PLR2004 -- two quotes
        raise FieldPathError(f"expected single quoted string but got {part}")
    return _ESCAPE.sub(lambda matched: _ESCAPES.get(matched[1], matched[1]), part[1:-1])


def _step(schema: Schema, name: str) -> Schema:
    found = schema.properties.get(name) if schema.properties else schema.additional
    if found is None:
        raise FieldPathError("does not refer to a valid field")
    return found


UNSET_FIELD = "<nil>"
"""The text for the field in an error without a field."""

Spine = tuple[str | int, ...]
"""The keys and indexes that lead to a value."""


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """Problem with the value at the path `spine`; `name` is the field as the server's validator writes it."""

    spine: Spine
    name: str
    make: Callable[[str], FieldError]


Check = Callable[[Any, Spine, list[Problem]], None]


def path_of(spine: Spine) -> str:
    """Format a path, such as `spec.ports[0].name`."""
    text = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in spine)
    return text.removeprefix(".")
