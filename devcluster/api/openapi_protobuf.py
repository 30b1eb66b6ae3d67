"""The protobuf form of OpenAPI documents of version 2, for clients that accept no other form.

kubectl uses this form to validate the items of a `List`, and for unknown kinds. The field numbers are from
the public description of the wire format (`openapi.v2` of gnostic). Only fields that occur in these
documents are encoded.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

Write = Callable[[int, Any], bytes]
"""Encodes a field with this number and value."""

Fields = Mapping[str, tuple[int, Write]]
"""The fields of a message, by their JSON names."""

_VARINT, _FIXED, _BYTES = 0, 1, 2
_SEVEN_BITS = 0x7F


def encode_document(document: dict[str, Any]) -> bytes:
    """Encode a JSON document made by `to_v2` as a protobuf message."""
    return _message(document, _DOCUMENT, 16)


def _varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1  # negative numbers are written in two's complement
    while value > _SEVEN_BITS:
        out.append(value & _SEVEN_BITS | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _string(number: int, value: str) -> bytes:
    return _bytes(number, value.encode())


def _integer(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(int(value)) if value else b""


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | _FIXED) + struct.pack("<d", value) if value else b""


def _any(number: int, value: Any) -> bytes:
    """Encode a value of any type as YAML text; JSON is valid YAML."""
    return _bytes(number, _bytes(2, orjson.dumps(value)))


def _repeated(write: Write) -> Write:
    return lambda number, values: b"".join([write(number, value) for value in values])


def _of(fields: Fields, extensions: int = 0) -> Write:
    """Return an encoder of messages; `extensions` is the field number for keys that begin with `x-`."""
    return lambda number, value: _bytes(number, _message(value, fields, extensions))


def _named(write: Write, field: int = 1) -> Write:
    """Return an encoder of maps, whose entries have a key, and a value that `write` encodes."""
    return lambda number, value: _bytes(number, _entries(value.items(), write, field))


def _inside(only: int, write: Write) -> Write:
    """Return an encoder of messages that have one field, with the number `only`."""
    return lambda number, value: _bytes(number, write(only, value))


def _entries(items: Iterable[tuple[str, Any]], write: Write, field: int) -> bytes:
    return b"".join([_bytes(field, _string(1, name) + write(2, value)) for name, value in items])


def _message(value: dict[str, Any], fields: Fields, extensions: int = 0) -> bytes:
    parts = []
    for name, each in value.items():
        if known := fields.get(name):
            parts.append(known[1](known[0], each))
        elif extensions and name.startswith("x-"):
            parts.append(_entries(((name, each),), _any, extensions))
    return b"".join(parts)


def _schema(number: int, value: dict[str, Any]) -> bytes:
    return _bytes(number, _message(value, _SCHEMA, 31))


def _more_properties(number: int, value: dict[str, Any] | bool) -> bytes:
    inner = _integer(2, value) if isinstance(value, bool) else _schema(1, value)
    return _bytes(number, inner)


def _parameter(number: int, value: dict[str, Any]) -> bytes:
    """Encode a parameter; parameters in the body, query and path have different message types."""
    if value["in"] == "body":
        one_of = _bytes(1, _message(value, _BODY_PARAMETER, 6))
    elif value["in"] == "query":
        one_of = _bytes(2, _bytes(3, _message(value, _QUERY_PARAMETER, 23)))
    else:
        one_of = _bytes(2, _bytes(4, _message(value, _PATH_PARAMETER, 22)))
    return _bytes(number, _bytes(1, one_of))


_strings = _repeated(_string)
_parameters = _repeated(_parameter)
_security = _repeated(_named(_inside(1, _strings)))
_SCHEMA: Fields = {
    "$ref": (1, _string),
    "format": (2, _string),
    "title": (3, _string),
    "description": (4, _string),
    "default": (5, _any),
    "multipleOf": (6, _double),
    "maximum": (7, _double),
    "exclusiveMaximum": (8, _integer),
    "minimum": (9, _double),
    "exclusiveMinimum": (10, _integer),
    "maxLength": (11, _integer),
    "minLength": (12, _integer),
    "pattern": (13, _string),
    "maxItems": (14, _integer),
    "minItems": (15, _integer),
    "uniqueItems": (16, _integer),
    "maxProperties": (17, _integer),
    "minProperties": (18, _integer),
    "required": (19, _strings),
    "enum": (20, _repeated(_any)),
    "additionalProperties": (21, _more_properties),
    "type": (22, _inside(1, _string)),
    "items": (23, _inside(1, _schema)),
    "allOf": (24, _repeated(_schema)),
    "properties": (25, _named(_schema)),
    "example": (30, _any),
}
_BODY_PARAMETER: Fields = {
    "description": (1, _string),
    "name": (2, _string),
    "in": (3, _string),
    "required": (4, _integer),
    "schema": (5, _schema),
}
_PARAMETER: Fields = {
    "required": (1, _integer),
    "in": (2, _string),
    "description": (3, _string),
    "name": (4, _string),
}
_QUERY_PARAMETER: Fields = {**_PARAMETER, "type": (6, _string), "uniqueItems": (20, _integer)}
_PATH_PARAMETER: Fields = {**_PARAMETER, "type": (5, _string), "uniqueItems": (19, _integer)}
_response = _of({"description": (1, _string), "schema": (2, _inside(1, _schema))}, 5)
_operation = _of(
    {
        "tags": (1, _strings),
        "description": (3, _string),
        "operationId": (5, _string),
        "produces": (6, _strings),
        "consumes": (7, _strings),
        "parameters": (8, _parameters),
        "responses": (9, _named(_inside(1, _response))),
        "schemes": (10, _strings),
        "security": (12, _security),
    },
    13,
)
_path = _of(
    {
        "get": (2, _operation),
        "put": (3, _operation),
        "post": (4, _operation),
        "delete": (5, _operation),
        "patch": (8, _operation),
        "parameters": (9, _parameters),
    },
    10,
)
_api_key = _of(
    {"type": (1, _string), "name": (2, _string), "in": (3, _string), "description": (4, _string)}, 5
)
_DOCUMENT: Fields = {
    "swagger": (1, _string),
    "info": (2, _of({"title": (1, _string), "version": (2, _string), "description": (3, _string)}, 7)),
    "paths": (8, _named(_path, 2)),
    "definitions": (9, _named(_schema)),
    "security": (12, _security),
    "securityDefinitions": (13, _named(_inside(2, _api_key))),
}
