"""Shard selectors, which select objects by the hash of a field (KEP-5866)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Final

from devcluster.errors import StatusError
from devcluster.schema.cel.syntax import (
    Call,
    Expr,
    Ident,
    Index,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    parse,
)
from devcluster.schema.cel.types import CompileError
from devcluster.schema.cel.values import UInt
from devcluster.storage.records import Stored

_FIELDS: Final[dict[str, Callable[[Stored], str]]] = {
    "object.metadata.uid": lambda stored: stored.uid,
    "object.metadata.namespace": lambda stored: stored.key.namespace,
}
_DIGITS: Final = 16
_END: Final = "1" + "0" * _DIGITS
# The numbers of expression kinds in the real parser, for its messages.
_KINDS: Final = {Call: 1, Index: 1, Ident: 3, ListLiteral: 4, Literal: 5, MapLiteral: 6, Select: 7}
_TYPES: Final = {bool: "bool", int: "int64", UInt: "uint64", float: "float64", bytes: "[]uint8"}


@dataclasses.dataclass(frozen=True, slots=True)
class ShardSelector:
    """Shard selector with ranges of a field's hash; it selects objects whose hash is in one of them."""

    field: str
    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def parse(cls, text: str) -> ShardSelector:
        """Parse a selector: `shardRange(object.metadata.uid, '0x00...', '0x80...') || ...`.

        Raises:
            StatusError: 500, as from the real server, for an invalid selector.
        """
        if not text.strip():
            raise _refused("empty shard selector is not allowed; omit the parameter for unfiltered lists")
        try:
            tree = parse(text)
        except CompileError as error:
            issue = str(error).partition("\n")[0].split(": ", 2)[-1]
            raise _refused(f"CEL parse error: {issue}") from None
        found = list(_parts(tree))
        first = found[0][0]
        for field, _, _ in found:
            if field != first:
                raise _refused(f'all shard ranges must use the same field, got "{first}" and "{field}"')
        return cls(first, tuple((start, end) for _, start, end in found))

    def matches(self, stored: Stored) -> bool:
        hashed = _hash(_FIELDS[self.field](stored))
        return any(start <= hashed < end for start, end in self.ranges)

    def __str__(self) -> str:
        return " || ".join(
            f"shardRange({self.field}, '0x{start:016x}', '0x{end:016x}')" for start, end in self.ranges
        )


def _hash(text: str) -> int:
    """Return the 64-bit FNV-1a hash."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def _refused(why: str) -> StatusError:
    return StatusError(500, "", f"invalid shard selector: {why}")


def _parts(expression: Expr) -> Iterator[tuple[str, int, int]]:
    if not isinstance(expression, Call):
        kind = _KINDS[type(expression)]
        raise _refused(f"unexpected expression kind {kind}; expected shardRange() call or || operator")
    if expression.function == "_||_":
        for each in expression.args:
            yield from _parts(each)
        return
    if expression.function != "shardRange":
        raise _refused(f'unsupported function "{expression.function}"; only shardRange() and || are allowed')
    if (count := len(expression.args)) != 3:  # noqa: PLR2004 -- as the message says
        raise _refused(f"shardRange() requires exactly 3 arguments, got {count}")
    field, start, end = expression.args
    path = _path(field)
    if path not in _FIELDS:
        raise _refused(f'unsupported field path "{path}"; supported: {", ".join(_FIELDS)}')
    first, last = _bound(start, "hexStart"), _bound(end, "hexEnd")
    if first >= last:
        raise _refused(f"shard range start 0x{first:016x} must be less than end 0x{last:016x}")
    yield path, first, last


def _path(expression: Expr) -> str:
    if isinstance(expression, Ident):
        return expression.name
    if isinstance(expression, Select):
        return f"{_path(expression.operand)}.{expression.field}"
    raise _refused(
        "shardRange() first argument: expected field path (e.g. object.metadata.uid), "
        f"got expression kind {_KINDS[type(expression)]}"
    )


def _bound(expression: Expr, name: str) -> int:
    if not isinstance(expression, Literal):
        kind = _KINDS[type(expression)]
        raise _refused(f"{name} must be a string literal (e.g. '0xff'), got expression kind {kind}")
    text = expression.value
    if not isinstance(text, str):
        raise _refused(f"{name} must be a string literal, got {_TYPES.get(type(text), 'NullValue')}")
    if not text.startswith("0x"):
        raise _refused(f"{name} must have '0x' prefix, got \"{text}\"")
    digits = text[2:]
    if not digits:
        raise _refused(f"{name}: hex value is required after '0x'")
    if len(digits) > _DIGITS + 1:
        raise _refused(f'{name}: hex value too long ({len(digits)} chars, max {_DIGITS + 1}): "{digits}"')
    if wrong := re.search("[^0-9a-f]", digits):
        raise _refused(f'{name}: invalid hex character "{wrong[0]}" in "{text}"')
    if len(digits) > _DIGITS and digits != _END:
        raise _refused(f"{name}: 17-digit hex value must be '0x{_END}' (2^64), got \"{text}\"")
    if len(digits) < _DIGITS:
        meant = f'did you mean "0x{int(digits, 16):016x}"?'
        raise _refused(f'{name} must be a 0x-prefixed 16-digit hex value, got "{text}" ({meant})')
    return int(digits, 16)
