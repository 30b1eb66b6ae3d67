"""Parsing of JSON and YAML in requests, with the real server's errors."""

from __future__ import annotations

import functools
import json
import math
import re
from typing import Any

import orjson
import yaml

MOST_LEVELS = 200
"""The maximum nesting of objects and arrays; the store's encoder has a limit not far above."""
TOO_DEEP = "exceeded max depth"


def is_too_deep(document: Any, body: bytes) -> bool:
    """Return whether a document is nested too deeply to be stored; `body` is its text."""
    if sum(map(body.count, (b"{", b"[", b"-", b"\n"))) < MOST_LEVELS:
        return False
    level = [document] if isinstance(document, dict | list) else []
    for _ in range(MOST_LEVELS):
        below = [list(each.values()) if isinstance(each, dict) else each for each in level]
        level = [each for listed in below for each in listed if isinstance(each, dict | list)]
        if not level:
            return False
    return True


_VALUE = "looking for beginning of value"
_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LITERALS = (b"true", b"false", b"null")
_END = "unexpected end of JSON input"


class _Malformed(Exception):
    """Error for a text that is not JSON; the message is Go's."""


def describe(text: bytes) -> str:
    """Return Go's error message for a text that is not valid JSON."""
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


_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# `surrogateescape` turns a byte that is not valid UTF-8 into one of these.
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
# Match surrogate pairs, lone surrogates and all other escapes, so that text after `\\` is not mistaken for an
# escape.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<alone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)


def read_json(body: bytes) -> tuple[Any, bytes]:
    """Parse JSON; return the document and its text.

    The text is `body`, with U+FFFD in place of each invalid byte and each lone surrogate.

    Raises:
        orjson.JSONDecodeError: the text is not JSON.
    """
    try:
        return orjson.loads(body), body
    except orjson.JSONDecodeError:
        mended = _mended(body)
        if mended == body:
            raise
        return orjson.loads(mended), mended


def _mended(body: bytes) -> bytes:
    text = _ESCAPED_BYTE.sub(_REPLACEMENT, body.decode(errors="surrogateescape"))
    return _ESCAPE.sub(lambda found: _REPLACEMENT if found["alone"] else found[0], text).encode()


_TAG = "tag:yaml.org,2002:"
_PLAIN = ("str", "binary", "timestamp", "value", "merge")
"""YAML scalar types that stay text here."""
_ESCAPED_SLASH = re.compile(r'"(?:[^\\]|\\[^/])*+\\/', re.DOTALL)
_INT64_AND_UINT64 = range(-(1 << 63), 1 << 64)
_MOST_VALUES = 400_000
"""The maximum number of values, besides one for each byte of the document: aliases repeat values."""


def parse_yaml(body: bytes) -> Any:
    """Parse a YAML document into JSON values; raise ValueError with the reason if it is invalid."""
    if (plain := _plain_json(body)) is not None:
        return plain
    try:
        document = yaml.load(body, Loader=_yaml_loader())  # noqa: S506 -- a safe loader, without dates
        if b"\\/" in body:
            _check_slashes(body.decode())
        return _to_json(document, _MOST_VALUES + len(body))
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        number = 0 if mark is None else mark.line + isinstance(error, yaml.scanner.ScannerError)
        line = f"line {number}: " if number else ""
        raise ValueError(f"yaml: {line}{problem}") from None


def _check_slashes(text: str) -> None:
    """Raise ValueError for an escaped slash in a quoted scalar, which Go's library does not support."""
    for token in yaml.scan(text, Loader=_yaml_loader()):
        if isinstance(token, yaml.ScalarToken) and token.style == '"':
            start = token.start_mark
            if _ESCAPED_SLASH.match(text, start.index, token.end_mark.index):
                line = f"line {start.line + 1}: " if start.line else ""
                raise ValueError(f"yaml: {line}found unknown escape character")


def repeated_keys(body: bytes) -> list[str]:
    """Return a message for each repeated key in a YAML text: `line 6: key "a" already set in map`."""
    if _plain_json(body) is not None:
        return []
    found: list[str] = []
    seen: set[int] = set()

    def visit(node: Any) -> None:
        if id(node) in seen:  # an alias may lead to a visited node
            return
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            for each in node.value:
                visit(each)
        if isinstance(node, yaml.MappingNode):
            keys: set[tuple[str, Any]] = set()
            for key, value in node.value:
                visit(value)
                name = (key.tag, key.value if isinstance(key, yaml.ScalarNode) else id(key))
                if name in keys:
                    shown = orjson.dumps(key.value).decode() if key.tag == f"{_TAG}str" else key.value
                    found.append(f"line {value.start_mark.line + 1}: key {shown} already set in map")
                keys.add(name)

    visit(yaml.compose(body, Loader=_yaml_loader()))
    return found


def _plain_json(body: bytes) -> dict[str, Any] | None:
    """Parse `body` as JSON, which most clients send; return None if YAML could read it differently.

    YAML differs for a repeated name, a fractional number, or an unprintable character.
    """
    if not body.startswith(b"{") or not body.isascii() or b"\x7f" in body:
        return None
    try:
        document: dict[str, Any] = orjson.loads(body)
        # The two forms that clients of Go and of Python write; neither repeats a name.
        is_plain = orjson.dumps(document) == body or json.dumps(document).encode() == body
        return document if is_plain and not _has_floats(document) else None
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None


def _has_floats(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_floats, value.values()))
    return any(map(_has_floats, value)) if isinstance(value, list) else isinstance(value, float)


def _to_json(document: Any, limit: int) -> Any:
    """Convert the YAML loader's values to JSON values; each use of an alias counts as new values.

    Raises:
        ValueError: the document has more than `limit` values, or JSON cannot express a value.
    """
    left = limit
    within: set[int] = set()

    def convert(value: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise ValueError("yaml: document contains excessive aliasing")
        if isinstance(value, float) and not math.isfinite(value):
            shown = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
            raise ValueError(f"json: unsupported value: {shown}")
        if not isinstance(value, dict | list | tuple | set):
            return value
        if id(value) in within:
            raise ValueError("yaml: anchor value contains itself")
        within.add(id(value))
        if isinstance(value, dict):
            converted: Any = {_key(key, each): convert(each) for key, each in value.items()}
        elif isinstance(value, set):
            converted = {_key(key, None): None for key in value}
        else:
            converted = [convert(each) for each in value]
        within.discard(id(value))
        return converted

    return convert(document)


def _key(key: Any, value: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return format(key, "d" if isinstance(key, int) else "g")
    shown = "<nil>" if key is None else str(key)
    told = json.dumps(value, ensure_ascii=False, default=str)
    raise ValueError(f"unsupported map key of type: %!s({shown}), key: {shown}, value: {told}")


@functools.cache
def _yaml_loader() -> Any:
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("_Loader", (base,), {})
    loader.yaml_implicit_resolvers = {
        first: [
            (tag, pattern) for tag, pattern in resolvers if tag not in {f"{_TAG}timestamp", f"{_TAG}value"}
        ]
        for first, resolvers in base.yaml_implicit_resolvers.items()
    }
    # Go's library also reads `y` and `n` as booleans.
    loader.add_implicit_resolver(f"{_TAG}bool", re.compile("[yYnN]$"), list("yYnN"))
    # Go's library reads each number that Go can parse, also `1e-07` or `08` (8.0), and `0o17` (15).
    digits = r"[-+]?(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?$"
    loader.add_implicit_resolver(f"{_TAG}int", re.compile(r"[-+]?0o[0-7_]+$"), list("-+0"))
    loader.add_implicit_resolver(f"{_TAG}float", re.compile(digits), list("-+.0123456789"))
    loader.add_constructor(f"{_TAG}bool", _boolean)
    loader.add_constructor(f"{_TAG}int", _integer)
    loader.add_constructor(f"{_TAG}float", _float)
    for name in _PLAIN:
        loader.add_constructor(_TAG + name, lambda loader, node: loader.construct_scalar(node))
    return loader


def _boolean(loader: Any, node: Any) -> bool:
    text = loader.construct_scalar(node).lower()
    return text in {"y", "yes", "true", "on"}


def _integer(loader: Any, node: Any) -> int | float | str:
    text = str(loader.construct_scalar(node))
    if ":" in text:  # a base-60 number in YAML 1.1, but not in Go
        return text
    number: int = loader.construct_yaml_int(node)
    if number in _INT64_AND_UINT64:
        return number
    return text if text.lstrip("-+")[:2] in {"0b", "0o", "0x"} else _float(loader, node)


def _float(loader: Any, node: Any) -> float | str:
    text = str(loader.construct_scalar(node))
    if ":" in text:
        return text
    number: float = loader.construct_yaml_float(node)
    return text if math.isinf(number) and text[-1].isdecimal() else number
