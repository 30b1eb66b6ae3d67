"""Error messages of Go's JSON decoder for invalid JSON."""

from __future__ import annotations

import json
import re

__all__ = ["describe"]

_VALUE = "looking for beginning of value"
_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LITERALS = (b"true", b"false", b"null")
_END = "unexpected end of JSON input"


class _Malformed(Exception):
    """The text is not JSON; the message is Go's."""


def describe(text: bytes) -> str:
    """Return Go's error message for an invalid JSON text."""
    try:
        place = _value(text, _skip(text, 0))
        place = _skip(text, place)
        if place < len(text):
            raise _bad(text, place, "after top-level value")
    except _Malformed as error:
        return str(error)
    except RecursionError:
        return "exceeded max depth"
    return "invalid UTF-8"


def _value(text: bytes, place: int) -> int:
    first = text[place : place + 1]
    if not first:
        raise _Malformed(_END)
    if first == b"{":
        return _container(text, place, b"}")
    if first == b"[":
        return _container(text, place, b"]")
    if first == b'"':
        return _string(text, place)
    if first in b"-0123456789":
        found = _NUMBER.match(text, place)
        if found is None:
            raise _bad(text, place + 1, "in numeric literal")
        return found.end()
    for literal in _LITERALS:
        if literal[:1] == first:
            return _literal(text, place, literal)
    raise _bad(text, place, _VALUE)


def _container(text: bytes, place: int, close: bytes) -> int:
    is_object = close == b"}"
    place = _skip(text, place + 1)
    if text[place : place + 1] == close:
        return place + 1
    while True:
        if is_object:
            if text[place : place + 1] != b'"':
                raise _bad(text, place, "looking for beginning of object key string")
            place = _skip(text, _string(text, place))
            if text[place : place + 1] != b":":
                raise _bad(text, place, "after object key")
            place = _skip(text, place + 1)
        place = _skip(text, _value(text, place))
        if text[place : place + 1] == close:
            return place + 1
        if text[place : place + 1] != b",":
            raise _bad(text, place, "after object key:value pair" if is_object else "after array element")
        place = _skip(text, place + 1)


def _string(text: bytes, place: int) -> int:
    found = _STRING.match(text, place)
    if found is not None:
        return found.end()
    place += 1
    while place < len(text):
        if text[place] < 0x20:  # noqa: PLR2004 -- control characters
            raise _bad(text, place, "in string literal")
        if text[place : place + 1] == b"\\":
            if text[place + 1 : place + 2] not in (*(bytes([each]) for each in b'"\\/bfnrtu'), b""):
                raise _bad(text, place + 1, "in string escape code")
            place += 1
        place += 1
    raise _Malformed(_END)


def _literal(text: bytes, place: int, literal: bytes) -> int:
    for offset in range(1, len(literal)):
        wanted = literal[offset : offset + 1]
        if text[place + offset : place + offset + 1] != wanted:
            raise _bad(text, place + offset, f"in literal {literal.decode()} (expecting '{wanted.decode()}')")
    return place + len(literal)


def _skip(text: bytes, place: int) -> int:
    found = _SPACE.match(text, place)
    return place if found is None else found.end()


def _bad(text: bytes, place: int, where: str) -> _Malformed:
    if place >= len(text):
        return _Malformed(_END)
    character = chr(text[place])
    special = {"'": r"'\''", '"': "'\"'"}
    shown = (
        special.get(character) or f"'{json.dumps(character, ensure_ascii=not character.isprintable())[1:-1]}'"
    )
    return _Malformed(f"invalid character {shown} {where}")
