"""YAML parsing as the server does it: the result has JSON values only."""

from __future__ import annotations

import functools
import math
import re
from typing import Any

import orjson

__all__ = ["parse_yaml", "repeated_keys"]

_TAG = "tag:yaml.org,2002:"
_NOT_IN_JSON = frozenset({f"{_TAG}timestamp", f"{_TAG}value"})
_PLAIN = ("str", "binary", "timestamp", "value", "merge")
"""YAML types of scalars that remain text here."""
_INT64_AND_UINT64 = range(-(1 << 63), 1 << 64)
_MOST_VALUES = 400_000
"""The maximum of values beyond a document's bytes: aliases multiply values."""


def parse_yaml(body: bytes) -> Any:
    """Parse a YAML document into JSON values.

    Raises:
        ValueError: the text is not YAML; the message says why.
    """
    if (plain := _plain_json(body)) is not None:
        return plain
    import yaml  # noqa: PLC0415 -- costs start-up time

    try:
        document = yaml.load(body, Loader=_yaml_loader())  # noqa: S506 -- a safe loader, without dates
        return _Converter(_MOST_VALUES + len(body)).convert(document)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        number = 0 if mark is None else mark.line + isinstance(error, yaml.scanner.ScannerError)
        line = f"line {number}: " if number else ""
        raise ValueError(f"yaml: {line}{problem}") from None


def repeated_keys(body: bytes) -> list[str]:
    """Return where a key of a parsed document repeats another one: `line 6: key "a" already set in map`."""
    if _plain_json(body) is not None:
        return []
    import yaml  # noqa: PLC0415

    found: list[str] = []
    seen: set[int] = set()

    def visit(node: Any) -> None:
        if id(node) in seen:  # an alias
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
    """Parse `body` as JSON, which most programs send; None where YAML could mean something else.

    Such cases are a repeated name, a fractional number, and an unprintable character.
    """
    if not body.startswith(b"{") or not body.isascii() or b"\x7f" in body:
        return None
    try:
        document: dict[str, Any] = orjson.loads(body)
        return document if orjson.dumps(document) == body and not _has_floats(document) else None
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None


def _has_floats(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_floats, value.values()))
    return any(map(_has_floats, value)) if isinstance(value, list) else isinstance(value, float)


class _Converter:
    """Converter of the loader's values to JSON values."""

    def __init__(self, limit: int) -> None:
        """Set up the converter; `limit` is the maximum of values, counted again for each alias."""
        self._left = limit
        self._within: set[int] = set()

    def convert(self, value: Any) -> Any:
        """Convert a value; raises ValueError if JSON cannot express it."""
        self._left -= 1
        if self._left < 0:
            raise ValueError("yaml: document contains excessive aliasing")
        if isinstance(value, dict | list | tuple | set):
            return self._convert_whole(value)
        if isinstance(value, float) and not math.isfinite(value):
            shown = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
            raise ValueError(f"json: unsupported value: {shown}")
        return value

    def _convert_whole(self, value: Any) -> Any:
        identity = id(value)
        if identity in self._within:
            raise ValueError("yaml: anchor value contains itself")
        self._within.add(identity)
        if isinstance(value, dict):
            converted: Any = {_key(key, each): self.convert(each) for key, each in value.items()}
        elif isinstance(value, set):
            converted = {_key(key, None): None for key in value}
        else:
            converted = [self.convert(each) for each in value]
        self._within.discard(identity)
        return converted


def _key(key: Any, value: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return format(key, "d" if isinstance(key, int) else "g")
    shown = "<nil>" if key is None else str(key)
    raise ValueError(f"unsupported map key of type: %!s({shown}), key: {shown}, value: {value!r}")


@functools.cache
def _yaml_loader() -> Any:
    import yaml  # noqa: PLC0415

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
    # A float needs neither a point nor a sign: `1e-07` is a number in JSON, which is a part of YAML.
    loader.add_implicit_resolver(
        f"{_TAG}float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
    )
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
    if ":" in text:  # a number to the base of 60 in YAML 1.1, not in Go
        return text
    number: int = loader.construct_yaml_int(node)
    try:
        return number if number in _INT64_AND_UINT64 else float(number)
    except OverflowError:
        return math.inf


def _float(loader: Any, node: Any) -> float | str:
    text = str(loader.construct_scalar(node))
    if ":" in text:
        return text
    number: float = loader.construct_yaml_float(node)
    return number
