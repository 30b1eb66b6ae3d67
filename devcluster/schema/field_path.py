"""The field that a rule blames (`fieldPath`), or that field selectors may name: `.spec.ports['http']`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from devcluster.schema.node import Schema

__all__ = ["FieldPathError", "resolve_field_path"]

_TOKEN = re.compile(r"'(?:\\.|[^'\\])*'|[.\[\]]|[^.\[\]']+|'")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class FieldPathError(ValueError):
    """A path that leads nowhere."""


def resolve_field_path(path: str, schema: Schema, *, brackets: bool = True) -> tuple[str, Schema]:
    """The path as errors write it, without the leading dot, and the node it leads to.

    Raises:
        FieldPathError: it leads nowhere; with the server's words.
    """
    tokens = iter(_TOKEN.findall(path))
    text = ""
    for token in tokens:
        if token == "[":
            if not brackets:
                raise FieldPathError("array notation is not allowed")
            name = _quoted(_following(tokens))
            closing = _following(tokens)
            if closing != "]":
                raise FieldPathError(f"expected ] but got {closing}")
        elif token == ".":
            name = _following(tokens)
        else:
            raise FieldPathError(f"expected [ or . but got: {token}")
        named = bool(schema.properties)
        schema = _step(schema, name)
        text += f".{name}" if named else f"[{name}]"
    return text.removeprefix("."), schema


def _following(tokens: Iterator[str]) -> str:
    found = next(tokens, None)
    if found is None:
        raise FieldPathError("unexpected end of JSON path")
    return found


def _quoted(token: str) -> str:
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":  # noqa: PLR2004 -- two quotes
        raise FieldPathError(f"expected single quoted string but got {token}")
    return _ESCAPE.sub(lambda matched: _ESCAPES.get(matched[1], matched[1]), token[1:-1])


def _step(schema: Schema, name: str) -> Schema:
    if schema.properties:
        found = schema.properties.get(name)
    else:
        found = schema.additional
    if found is None:
        raise FieldPathError("does not refer to a valid field")
    return found
