"""Decoder of `application/vnd.kubernetes.protobuf`: an envelope with the kind, and the object in it.

The messages of built-in types are decoded into the values that their JSON would have.
"""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable
from typing import Any, Final

import orjson

from devcluster.errors import bad_request
from devcluster.types import table, times, wire
from devcluster.types.codec import DecodeError
from devcluster.types.decode import cannot_be_handled, convert
from devcluster.types.wire import BrokenMessage, Field, Message

Read = Callable[[Field, str], Any]
"""Read one occurrence of a field; the second argument is its name, for errors."""
_JSON_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_MAGIC = b"k8s\x00"
_SHOWN = 30


def decode_protobuf(body: bytes, default: tuple[str, str, str] | None = None) -> dict[str, Any]:
    """Decode the object in a protobuf body, in the form of the objects that `decode_strict` returns.

    `default` is the (group, version, kind) of the path, for a body that does not name its kind.

    Raises:
        StatusError: 400, the body is malformed, or its kind is not built in.
    """
    try:
        gvk, raw = _envelope(Message(memoryview(body)), default or ("", "", ""))
    except BrokenMessage as error:
        wanted = f" (must be of type {default[2]})" if default else ""
        raise bad_request(f"the object provided is unrecognized{wanted}: {error} ({excerpt(body)})") from None
    try:
        return _object(gvk, raw)
    except BrokenMessage as error:
        raise cannot_be_handled(gvk, str(error), expected=default[2] if default else "") from None


def excerpt(body: bytes) -> str:
    """Return the start of a body that cannot be parsed, as the server's error shows it."""
    if not body:
        return "<empty>"
    more = " ..." if len(body) > _SHOWN else ""
    if body.startswith(b"{"):
        return body[:_SHOWN].decode("utf-8", "replace") + more
    return body[:_SHOWN].hex() + more


def _envelope(body: Message, default: tuple[str, str, str]) -> tuple[tuple[str, str, str], Message]:
    """Return (group, version, kind) of a runtime.Unknown envelope, and the message inside it."""
    start, rest = body.data[: len(_MAGIC)], body.data[len(_MAGIC) :]
    if start != _MAGIC:
        prefix = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        raise BrokenMessage(prefix if body.data else "empty data")
    if not rest:
        raise BrokenMessage("empty body")
    api_version = kind = ""
    raw = body._replace(data=rest[:0])
    for field in wire.fields(body._replace(data=rest)):
        match field.number:
            case 1:
                for part in wire.fields(wire.submessage(field, "typeMeta")):
                    if part.number == 1:
                        api_version = wire.text(part, "apiVersion")
                    else:
                        kind = wire.text(part, "kind")
            case 2:
                raw = wire.submessage(field, "raw")
    group, _, version = api_version.rpartition("/") if api_version else (default[0], "", default[1])
    return (group, version, kind or default[2]), raw


def _object(gvk: tuple[str, str, str], raw: Message) -> dict[str, Any]:
    group, version, kind = gvk
    api_version = f"{group}/{version}" if group else version
    name = table.name_of(group, version, kind)
    if name is None:
        known = f'no kind "{kind}" is registered for version "{api_version}"'
        raise BrokenMessage(f'{known} in scheme "pkg/runtime/scheme.go:111"')
    try:
        decoded, _ = convert({"kind": kind, "apiVersion": api_version, **_message(name, raw)}, name)
    except DecodeError as error:
        raise BrokenMessage(str(error)) from None
    return decoded


def _message(openapi_name: str, message: Message) -> dict[str, Any]:
    """Return the fields of a message of type `openapi_name`; raise BrokenMessage for an invalid message."""
    found: dict[str, Any] = {}
    plan = _plan(openapi_name)
    for field in wire.fields(message):
        if (reader := plan.get(field.number)) is not None:
            reader(found, field)
    return found


@functools.cache
def _plan(openapi_name: str) -> dict[int, Callable[[dict[str, Any], Field], None]]:
    """Return the functions that read the fields of a struct, by the number of the field."""
    return {
        number: _into(json_name, go) for json_name, go, _, number in table.fields_of(openapi_name) if number
    }


def _into(name: str, go: str) -> Callable[[dict[str, Any], Field], None]:
    if not name:  # embedded: a message of its own on the wire, the same object in JSON
        embedded = go.removeprefix("*")
        return lambda found, field: found.update(_message(embedded, wire.submessage(field, embedded)))
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
            if part.number == 1:
                key = wire.text(part, name)
            else:
                value = read(part, name)
        found.setdefault(name, {})[key] = value

    return into


def _unnamed(go: str) -> str:
    """Return the underlying type of a named Go type that has no protobuf message, else `go` itself."""
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
    return lambda field, name: _message(go, wire.submessage(field, name))


def _strings(field: Field, name: str) -> list[str]:
    """Decode a message whose only field is a list of strings."""
    return [wire.text(item, "items") for item in wire.fields(wire.submessage(field, name))]


def _bytes(field: Field, name: str) -> str:
    return base64.b64encode(wire.content(field, name)).decode()


def _time(field: Field, name: str, *, micro: bool = False) -> str | None:
    parts = {part.number: part for part in wire.fields(wire.submessage(field, name))}
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
        match part.number:
            case 1:
                kind = wire.integer(part, "type")
            case 2:
                number = wire.integer(part, "intVal", bits=32)
            case 3:
                text = wire.text(part, "strVal")
    return text if kind else number


def _raw(field: Field, name: str) -> Any:
    """Return the content of a RawExtension, from JSON or from a protobuf envelope; None if it is empty."""
    message = wire.submessage(field, name)
    raw = message._replace(data=message.data[:0])
    for part in wire.fields(message):
        raw = wire.submessage(part, "raw")
    if not raw.data:
        return None
    if raw.data[: len(_MAGIC)] == _MAGIC:
        return _object(*_envelope(raw, ("", "", "")))
    try:
        return orjson.loads(raw.data)
    except ValueError:
        raise BrokenMessage(f"{name} is not JSON") from None


def _schema_or_bool(field: Field, name: str) -> Any:
    allows, schema = False, None
    for part in wire.fields(wire.submessage(field, name)):
        if part.number == 1:
            allows = wire.boolean(part, "allows")
        else:
            schema = _message(_JSON_SCHEMA, wire.submessage(part, "schema"))
    return allows if schema is None else schema


def _schema_or_list(field: Field, name: str, *, strings: bool = False) -> Any:
    schema = None
    items: list[Any] = []
    for part in wire.fields(wire.submessage(field, name)):
        if part.number == 1:
            schema = _message(_JSON_SCHEMA, wire.submessage(part, "schema"))
        elif strings:
            items.append(wire.text(part, "property"))
        else:
            items.append(_message(_JSON_SCHEMA, wire.submessage(part, "jSONSchemas")))
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
