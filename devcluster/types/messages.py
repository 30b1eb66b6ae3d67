"""Protobuf messages of the built-in types, read into what their JSON would be."""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable
from typing import Any, Final

import orjson

from devcluster.types import table, times, wire
from devcluster.types.wire import BrokenMessage, Field

__all__ = ["decode_message"]

Read = Callable[[Field, str], Any]
"""Read one occurrence of a field; the second argument is its name, for errors."""
_JSON_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


def decode_message(openapi_name: str, data: bytes) -> dict[str, Any]:
    """The fields of a message of this type.

    Raises:
        BrokenMessage: it is not one.
    """
    found: dict[str, Any] = {}
    plan = _plan(openapi_name)
    for field in wire.fields(data):
        if (reader := plan.get(field[0])) is not None:
            reader(found, field)
    return found


@functools.cache
def _plan(openapi_name: str) -> dict[int, Callable[[dict[str, Any], Field], None]]:
    """What to do with each field number of a struct."""
    return {
        number: _into(json_name, go) for json_name, go, _, number in table.fields_of(openapi_name) if number
    }


def _into(name: str, go: str) -> Callable[[dict[str, Any], Field], None]:
    if not name:  # embedded: a message of its own on the wire, the same object in JSON
        embedded = go.removeprefix("*")
        return lambda found, field: found.update(decode_message(embedded, wire.submessage(field, embedded)))
    go = _unnamed(go.removeprefix("*"))
    if go.startswith("map["):
        return _map_into(name, _reader(go.partition("]")[2]))
    if go in {"[]int32", "[]int64"}:
        bits = 32 if go == "[]int32" else 64
        return lambda found, field: found.setdefault(name, []).extend(
            wire.repeated_integers(field, name, bits=bits)
        )
    if go.startswith("[]") and go != "[]byte":
        read_item = _reader(go[2:])
        return lambda found, field: found.setdefault(name, []).append(read_item(field, name))
    read = _reader(go)
    return lambda found, field: found.__setitem__(name, read(field, name))


def _map_into(name: str, read: Read) -> Callable[[dict[str, Any], Field], None]:
    def into(found: dict[str, Any], field: Field) -> None:
        key, value = "", None
        for part in wire.fields(wire.submessage(field, name)):
            if part[0] == 1:
                key = wire.text(part, name)
            else:
                value = read(part, name)
        found.setdefault(name, {})[key] = value

    return into


def _unnamed(go: str) -> str:
    """What a named type is made of, where that is no message of its own."""
    if go.startswith("io."):
        definition = table.go_type(go)
        if isinstance(definition, str) and definition != "custom" and not definition.startswith("items:"):
            return definition
    return go


def _reader(go: str) -> Read:
    go = _unnamed(go.removeprefix("*"))
    if go in _BASIC:
        return _BASIC[go]
    definition = table.go_type(go)
    if definition == "custom":
        return _CUSTOM[go.rpartition(".")[2]]
    if isinstance(definition, str):
        return _strings
    return lambda field, name: decode_message(go, wire.submessage(field, name))


def _strings(field: Field, name: str) -> list[str]:
    """A message that is nothing but a list of strings."""
    return [wire.text(item, "items") for item in wire.fields(wire.submessage(field, name))]


def _bytes(field: Field, name: str) -> str:
    return base64.b64encode(wire.submessage(field, name)).decode()


def _time(field: Field, name: str, *, micro: bool = False) -> str | None:
    parts = {part[0]: part for part in wire.fields(wire.submessage(field, name))}
    if not parts:
        return None
    seconds = wire.integer(parts[1], "seconds") if 1 in parts else 0
    nanos = wire.integer(parts[2], "nanos", bits=32) if 2 in parts else 0  # noqa: PLR2004 -- the field's number
    try:
        return times.from_seconds(seconds, nanos, micro=micro) if seconds or nanos else None
    except times.InvalidTime as error:
        raise BrokenMessage(str(error)) from None


def _quantity(field: Field, name: str) -> str:
    text = "0"
    for part in wire.fields(wire.submessage(field, name)):
        text = wire.text(part, "string")
    return text


def _int_or_string(field: Field, name: str) -> int | str:
    kind = number = 0
    text = ""
    for part in wire.fields(wire.submessage(field, name)):
        match part[0]:
            case 1:
                kind = wire.integer(part, "type")
            case 2:
                number = wire.integer(part, "intVal", bits=32)
            case 3:
                text = wire.text(part, "strVal")
    return text if kind else number


def _raw(field: Field, name: str) -> Any:
    """Bytes of JSON, or another object in protobuf."""
    raw = b""
    for part in wire.fields(wire.submessage(field, name)):
        raw = wire.submessage(part, "raw")
    if not raw:
        return None
    if raw.startswith(b"k8s\x00"):
        from devcluster.types.protobuf import decode_envelope  # noqa: PLC0415 -- which stands on this module

        return decode_envelope(raw)
    try:
        return orjson.loads(raw)
    except ValueError:
        raise BrokenMessage(f"{name} is not JSON") from None


def _schema_or_bool(field: Field, name: str) -> Any:
    allows, schema = False, None
    for part in wire.fields(wire.submessage(field, name)):
        if part[0] == 1:
            allows = wire.boolean(part, "allows")
        else:
            schema = decode_message(_JSON_SCHEMA, wire.submessage(part, "schema"))
    return allows if schema is None else schema


def _schema_or_list(field: Field, name: str, *, strings: bool = False) -> Any:
    schema = None
    items: list[Any] = []
    for part in wire.fields(wire.submessage(field, name)):
        if part[0] == 1:
            schema = decode_message(_JSON_SCHEMA, wire.submessage(part, "schema"))
        elif strings:
            items.append(wire.text(part, "property"))
        else:
            items.append(decode_message(_JSON_SCHEMA, wire.submessage(part, "jSONSchemas")))
    return items or schema


_BASIC: Final[dict[str, Read]] = {
    "string": wire.text,
    "bool": wire.boolean,
    "int32": functools.partial(wire.integer, bits=32),
    "int64": wire.integer,
    "float64": wire.double,
    "[]byte": _bytes,
}
_CUSTOM: Final[dict[str, Read]] = {
    "Time": _time,
    "MicroTime": functools.partial(_time, micro=True),
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "RawExtension": _raw,
    "FieldsV1": _raw,
    "JSON": _raw,
    "JSONSchemaPropsOrBool": _schema_or_bool,
    "JSONSchemaPropsOrArray": _schema_or_list,
    "JSONSchemaPropsOrStringArray": functools.partial(_schema_or_list, strings=True),
}
