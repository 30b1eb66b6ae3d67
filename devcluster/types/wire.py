"""Wire format of protobuf, in which a message is a sequence of numbered fields."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_VARINT = 0
_FIXED64 = 1
_BYTES = 2
_FIXED32 = 5
_MAX_VARINT_BITS = 64
_MAX_DEPTH = 100
"""The maximum nesting of messages (two for a level of a schema's properties); Go's decoders allow 10,000."""


class Message(NamedTuple):
    """Bytes of a message, and the number of messages that enclose it."""

    data: memoryview
    depth: int = 0


class Field(NamedTuple):
    """Field of a message: its number, wire type and undecoded value, and the depth of its message."""

    number: int
    wire_type: int
    value: int | memoryview
    depth: int


class BrokenMessage(ValueError):
    """Error for bytes that are not a message of the expected type; the text is Go's."""


def fields(message: Message) -> Iterator[Field]:
    """Yield the fields of a message in their order; raise BrokenMessage if it is malformed."""
    data, depth = message
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if number <= 0:
            raise BrokenMessage(f"proto: illegal tag {number} (wire type {wire_type})")
        if wire_type == _BYTES:
            length, position = _varint(data, position)
            if position + length > end:
                raise BrokenMessage("unexpected EOF")
            yield Field(number, wire_type, data[position : position + length], depth)
            position += length
        elif wire_type == _VARINT:
            value, position = _varint(data, position)
            yield Field(number, wire_type, value, depth)
        elif wire_type in {_FIXED64, _FIXED32}:
            size = 8 if wire_type == _FIXED64 else 4
            if position + size > end:
                raise BrokenMessage("unexpected EOF")
            yield Field(number, wire_type, data[position : position + size], depth)
            position += size
        else:
            raise BrokenMessage(f"proto: illegal wireType {wire_type}")


def integer(field: Field, name: str, *, bits: int = 64) -> int:
    """Decode a signed integer of `bits` bits."""
    if not isinstance(field.value, int):
        raise _wrong(field, name)
    value = field.value & (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def boolean(field: Field, name: str) -> bool:
    """Decode a boolean."""
    return integer(field, name) != 0


def double(field: Field, name: str) -> float:
    """Decode a 64-bit float."""
    if field.wire_type != _FIXED64 or isinstance(field.value, int):
        raise _wrong(field, name)
    return float(struct.unpack("<d", field.value)[0])


def submessage(field: Field, name: str) -> Message:
    """Return the message in a field; raise BrokenMessage for other content or too deep nesting."""
    if field.depth >= _MAX_DEPTH:
        raise BrokenMessage("proto: nested too deeply")
    return Message(content(field, name), field.depth + 1)


def content(field: Field, name: str) -> memoryview:
    """Return the bytes in a field; raise BrokenMessage for another wire type."""
    if field.wire_type != _BYTES or isinstance(field.value, int):
        raise _wrong(field, name)
    return field.value


def text(field: Field, name: str) -> str:
    """Decode a string; invalid UTF-8 is replaced, as when Go writes JSON."""
    return str(content(field, name), "utf-8", "replace")


def repeated_integers(field: Field, name: str, *, bits: int) -> list[int]:
    """Decode the packed numbers of a list, or one number that is not packed."""
    if field.wire_type != _BYTES:
        return [integer(field, name, bits=bits)]
    packed = content(field, name)
    numbers = []
    position = 0
    while position < len(packed):
        value, position = _varint(packed, position)
        numbers.append(integer(field._replace(value=value), name, bits=bits))
    return numbers


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    try:
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004 -- the bit that says another byte follows
                return value, position
            shift += 7
            if shift >= _MAX_VARINT_BITS:
                raise BrokenMessage("proto: integer overflow")
    except IndexError:
        raise BrokenMessage("unexpected EOF") from None


def _wrong(field: Field, name: str) -> BrokenMessage:
    shown = "ObjectMeta" if name == "metadata" else name[:1].upper() + name[1:]  # the field's name in Go
    return BrokenMessage(f"proto: wrong wireType = {field.wire_type} for field {shown}")
