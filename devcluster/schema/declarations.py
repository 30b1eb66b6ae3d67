"""Declarations of a schema for CEL: the types of its values, and the conversion of JSON values."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

from devcluster.schema.cel.syntax import RESERVED
from devcluster.schema.cel.types import (
    STRING,
    Field,
    Type,
    object_of,
)
from devcluster.schema.cel.values import Duration, MapList, SetList, Timestamp, to_duration, to_timestamp
from devcluster.schema.node import UNSET, Schema

Convert = Callable[[Any], Any]

_FOUR_CENTURIES = 146_097 * 86_400 * 10**9
"""The nanoseconds of four centuries."""

# Property names that rules have to escape.
_UNNAMEABLE = RESERVED | {"true", "false", "null", "in"}
_ESCAPABLE = re.compile(r"[A-Za-z_.\-/][A-Za-z0-9_.\-/]*")
_SPECIAL = re.compile(r"__|[-./]")
_ESCAPED = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_REQUEST = 3 * 1024 * 1024
"""The size of the largest request in bytes: the bound of values without another bound."""
_TEXT = Type("string", max_elements=_REQUEST - 2)
_META = object_of({name: Field(name, _TEXT) for name in ("name", "generateName")})
_BYTES_OF_CHARACTER = 4
_SIMPLE = {
    "boolean": Type("bool", min_size=4),
    "number": Type("double", min_size=1),
    "integer": Type("int", min_size=1),
}
_TIMES = {
    "duration": Type("duration", min_size=3, max_elements=32),
    "date": Type("timestamp", min_size=12, max_elements=12),
    "date-time": Type("timestamp", min_size=21, max_elements=32),
}


def escape(name: str) -> str | None:
    """Return the name of a property in expressions, or None if no expression can use it."""
    if name in _UNNAMEABLE:
        return f"__{name}__"
    if not _ESCAPABLE.fullmatch(name):
        return None
    return _SPECIAL.sub(lambda matched: _ESCAPED[matched.group()], name)


def declare(schema: Schema, *, root: bool = False) -> Type | None:
    """Return the CEL type of a node's values, or None if expressions cannot access the node.

    With `root`, the node is a whole object, whose rules also see apiVersion, kind, and name and generateName
    of the metadata. The type also contains the bounds that the server assumes for the values.
    """
    if schema.int_or_string:
        return Type("dyn", min_size=1, max_elements=_longest(schema))
    if schema.type == "array":
        return _declare_list(schema)
    if schema.type == "object":
        additional = schema.source.get("additionalProperties")
        if schema.additional is not None and isinstance(additional, dict):
            values = declare(schema.additional, root=schema.additional.embedded)
            if values is None:
                return None
            most = _bound(schema, "maxProperties", (_REQUEST - 2) // (values.min_size + 6))
            return Type("map", (STRING, values), max_elements=most)
        return _declare_object(schema, root=root)
    return _declare_text(schema) if schema.type == "string" else _SIMPLE.get(schema.type)


def _declare_list(schema: Schema) -> Type | None:
    items = declare(schema.items, root=schema.items.embedded) if schema.items is not None else None
    if items is None:
        return None
    return Type(
        "list", (items,), max_elements=_bound(schema, "maxItems", (_REQUEST - 2) // (items.min_size + 1))
    )


def _declare_text(schema: Schema) -> Type:
    if schema.format == "byte":
        return Type("bytes", max_elements=_bound(schema, "maxLength", _REQUEST - 2))
    return _TIMES.get(schema.format) or Type("string", max_elements=_longest(schema))


def _bound(schema: Schema, keyword: str, otherwise: int) -> int:
    given = schema.source.get(keyword)
    return otherwise if given is None else max(given, 0)


def _longest(schema: Schema) -> int:
    """Return the maximum length of a string, in bytes."""
    given = schema.source.get("maxLength")
    if given is not None:
        return int(max(given, 0)) * _BYTES_OF_CHARACTER
    if schema.enum and not schema.int_or_string:
        return max((len(each.encode()) for each in schema.enum if isinstance(each, str)), default=0)
    return _REQUEST - 2


def _declare_object(schema: Schema, *, root: bool) -> Type:
    fields: dict[str, Field] = {}
    given = {} if not root or _declares_root(schema) else _ROOT
    size = 2
    for name, each in schema.properties.items():
        kind, escaped = declare(each, root=each.embedded), escape(name)
        kind = given.get(name, kind)
        if kind is None:
            continue
        if escaped is not None:
            fields[escaped] = Field(name, kind)
        if name in schema.required and each.default is UNSET:
            size += len(name.encode()) + kind.min_size + 4
    fields.update((name, Field(name, kind)) for name, kind in given.items())
    return object_of(fields, size)


def _declares_root(schema: Schema) -> bool:
    """Return whether the schema has apiVersion, kind, metadata.name and metadata.generateName as strings."""
    metadata = schema.properties.get("metadata")
    if metadata is None or metadata.type != "object":
        return False
    found = [schema.properties.get(name) for name in ("kind", "apiVersion")]
    found += [metadata.properties.get(name) for name in ("name", "generateName")]
    return all(each is not None and each.type == "string" for each in found)


_ROOT = {"kind": _TEXT, "apiVersion": _TEXT, "metadata": _META}


def compile_conversion(schema: Schema) -> Convert | None:
    """Return a function from a node's JSON to its CEL value, or None if they are equal."""
    if schema.int_or_string:
        return None
    if schema.type == "array":
        return _convert_list(schema)
    if schema.type == "object":
        return _convert_object(schema)
    if schema.type == "number":
        return lambda value: float(value) if type(value) is int else value
    return _FORMATS.get(schema.format) if schema.type == "string" else None


def _convert_list(schema: Schema) -> Convert | None:
    inner = compile_conversion(schema.items) if schema.items is not None else None
    keys, kind = schema.list_map_keys, schema.list_type
    if inner is None and kind not in {"set", "map"}:
        return None

    def convert(value: Any) -> Any:
        if type(value) is not list:
            return value
        items = value if inner is None else [inner(each) for each in value]
        if kind == "set":
            return SetList(items)
        return MapList(items, keys) if kind == "map" else items

    return convert


def _convert_object(schema: Schema) -> Convert | None:
    named = {name: inner for name, each in schema.properties.items() if (inner := compile_conversion(each))}
    values = compile_conversion(schema.additional) if schema.additional is not None else None
    if not named and values is None:
        return None

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            return value
        converted = dict(value)
        for name, each in value.items():
            inner = named.get(name, values)
            if inner is not None:
                converted[name] = inner(each)
        return converted

    return convert


def _timestamp(value: Any) -> Timestamp | Any:
    if type(value) is not str:
        return value
    return _to_moment(value) or _to_moment(f"{value}T00:00:00Z") or value


def _to_moment(text: str) -> Timestamp | None:
    """Parse a timestamp that is already validated; the server accepts the year 0, unlike Python."""
    if not text.startswith("0000-"):
        return to_timestamp(text)
    later = to_timestamp(f"0400{text[4:]}")  # days and leap years repeat after as many years
    return None if later is None else Timestamp(later.nanoseconds - _FOUR_CENTURIES)


def _duration(value: Any) -> Duration | Any:
    return (to_duration(value) or value) if type(value) is str else value


def _bytes(value: Any) -> bytes | Any:
    if type(value) is not str:
        return value
    try:
        return base64.b64decode(value)
    except ValueError:
        return value


_FORMATS: dict[str, Convert] = {
    "byte": _bytes,
    "date": _timestamp,
    "date-time": _timestamp,
    "duration": _duration,
}
