"""The wire format of protobuf: a message is a sequence of numbered fields."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_VARINT = 0
_FIXED64 = 1
_BYTES = 2
_FIXED32 = 5
_MAX_VARINT_BITS = 64

Field = tuple[int, int, int | bytes]
"""A field's number, its wire type, and its value, decoded as far as the wire type tells."""


class BrokenMessage(ValueError):
    """Not a message of the expected type; the text is Go's."""


def fields(data: bytes) -> Iterator[Field]:
    """Yield the fields of a message in their order.

    Raises:
        BrokenMessage: the message ends too early, or has a field that cannot be skipped.
    """
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
            yield number, wire_type, data[position : position + length]
            position += length
        elif wire_type == _VARINT:
            value, position = _varint(data, position)
            yield number, wire_type, value
        elif wire_type in {_FIXED64, _FIXED32}:
            size = 8 if wire_type == _FIXED64 else 4
            if position + size > end:
                raise BrokenMessage("unexpected EOF")
            yield number, wire_type, data[position : position + size]
            position += size
        else:
            raise BrokenMessage(f"proto: illegal wireType {wire_type}")


def integer(field: Field, name: str, *, bits: int = 64) -> int:
    """Decode a signed number of `bits` bits."""
    value = field[2]
    if isinstance(value, bytes):
        raise _wrong(field, name)
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def boolean(field: Field, name: str) -> bool:
    """Decode a boolean."""
    return integer(field, name) != 0


def double(field: Field, name: str) -> float:
    """Decode a 64-bit float."""
    value = field[2]
    if field[1] != _FIXED64 or not isinstance(value, bytes):
        raise _wrong(field, name)
    return float(struct.unpack("<d", value)[0])


def submessage(field: Field, name: str) -> bytes:
    """Return a nested message, or plain bytes."""
    value = field[2]
    if field[1] != _BYTES or not isinstance(value, bytes):
        raise _wrong(field, name)
    return value


def text(field: Field, name: str) -> str:
    """Decode a string; invalid UTF-8 is replaced, as when Go writes JSON."""
    return submessage(field, name).decode("utf-8", "replace")


def repeated_integers(field: Field, name: str, *, bits: int) -> list[int]:
    """Decode a list's packed numbers, or one of its unpacked numbers."""
    if field[1] != _BYTES:
        return [integer(field, name, bits=bits)]
    packed = submessage(field, name)
    numbers = []
    position = 0
    while position < len(packed):
        value, position = _varint(packed, position)
        numbers.append(integer((0, _VARINT, value), name, bits=bits))
    return numbers


def _varint(data: bytes, position: int) -> tuple[int, int]:
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
    return BrokenMessage(f"proto: wrong wireType = {field[1]} for field {shown}")
