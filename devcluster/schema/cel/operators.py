"""Operators of CEL expressions."""

from __future__ import annotations

import math
from typing import Any

from devcluster.schema.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    A,
    B,
    CelError,
    Overload,
    Run,
    function,
    list_of,
    map_of,
    no_such_overload,
)
from devcluster.schema.cel.values import (
    Duration,
    MapList,
    SetList,
    Timestamp,
    UInt,
    checked,
    checked_timestamp,
    compare,
    equal,
)


def connect(left: Run, right: Run, *, decisive: bool) -> Run:
    """Return a function for `||` or `&&`; a `decisive` value on one side decides, even if the other fails."""

    def run(env: dict[str, Any]) -> bool:
        failure: CelError | None = None
        try:
            value = left(env)
            if type(value) is bool and value == decisive:
                return value
            if type(value) is not bool:
                failure = no_such_overload()
        except CelError as error:
            failure = error
        value = right(env)
        if value is decisive:
            return value is True
        if failure is not None:
            raise failure
        if type(value) is not bool:
            raise no_such_overload()
        return not decisive

    return run


def get_item(value: Any, key: Any) -> Any:
    """Evaluate `value[key]`; raise CelError if the item does not exist."""
    if type(value) is dict:
        if type(key) is float and key.is_integer():
            key = int(key)
        if key in value and type(key) is not bool:
            return value[key]
        raise CelError(f"no such key: {key}")
    if isinstance(value, list):
        if type(key) is float and key.is_integer():
            key = int(key)
        if not isinstance(key, int) or type(key) is bool:
            raise CelError(f"unsupported index type '{type(key).__name__}' in list")
        if 0 <= key < len(value):
            return value[key]
        raise CelError(f"index out of bounds: {key}")
    raise no_such_overload()


def _contains(item: Any, container: Any) -> bool:
    if type(container) is dict:
        return type(item) in {str, int, UInt} and item in container
    if isinstance(container, list):
        return any(equal(item, each) for each in container)
    raise no_such_overload()


def _same_kind(one: Any, other: Any) -> type:
    if type(one) is not type(other):
        raise no_such_overload()
    return type(one)


def _add(one: Any, other: Any) -> Any:
    if isinstance(one, list) and isinstance(other, list):
        return _join(one, other)
    if type(one) is Timestamp and type(other) is Duration:
        return checked_timestamp(one.nanoseconds + other.nanoseconds)
    if type(one) is Duration and type(other) is Timestamp:
        return checked_timestamp(one.nanoseconds + other.nanoseconds)
    kind = _same_kind(one, other)
    if kind is int:
        return checked(one + other)
    if kind is UInt:
        return _unsigned(int(one) + int(other))
    if kind is Duration:
        return Duration(checked(one.nanoseconds + other.nanoseconds))
    if kind in {str, float, bytes}:
        return one + other
    raise no_such_overload()


def _join(one: list[Any], other: list[Any]) -> list[Any]:
    if type(one) is SetList:
        return SetList([*one, *(each for each in other if not any(equal(each, have) for have in one))])
    if type(one) is MapList:
        # The right list's values win, in the left list's order.
        keys = one.keys

        def key_of(item: Any) -> tuple[Any, ...]:
            return tuple(repr(item.get(key)) for key in keys)

        merged = {key_of(each): each for each in one}
        merged.update({key_of(each): each for each in other})
        return MapList(list(merged.values()), keys)
    return [*one, *other]


def _subtract(one: Any, other: Any) -> Any:
    if type(one) is Timestamp:
        if type(other) is Timestamp:
            return Duration(checked(one.nanoseconds - other.nanoseconds))
        if type(other) is Duration:
            return checked_timestamp(one.nanoseconds - other.nanoseconds)
    kind = _same_kind(one, other)
    if kind is int:
        return checked(one - other)
    if kind is UInt:
        return _unsigned(int(one) - int(other))
    if kind is float:
        return one - other
    if kind is Duration:
        return Duration(checked(one.nanoseconds - other.nanoseconds))
    raise no_such_overload()


def _multiply(one: Any, other: Any) -> Any:
    kind = _same_kind(one, other)
    if kind is int:
        return checked(one * other)
    if kind is UInt:
        return _unsigned(int(one) * int(other))
    if kind is float:
        return one * other
    raise no_such_overload()


def _divide(one: Any, other: Any) -> Any:
    kind = _same_kind(one, other)
    if kind is float:
        if other:
            return one / other
        return (
            math.nan if not one or math.isnan(one) else math.copysign(math.inf, one) * math.copysign(1, other)
        )
    if kind not in {int, UInt}:
        raise no_such_overload()
    if not other:
        raise CelError("division by zero")
    quotient = abs(int(one)) // abs(int(other))
    quotient = -quotient if (one < 0) != (other < 0) else quotient
    return UInt(quotient) if kind is UInt else checked(quotient)


def _remainder(one: Any, other: Any) -> Any:
    kind = _same_kind(one, other)
    if kind not in {int, UInt}:
        raise no_such_overload()
    if not other:
        raise CelError("modulus by zero")
    rest = abs(int(one)) % abs(int(other))
    return kind(-rest if one < 0 else rest)


def _negate(value: Any) -> Any:
    if type(value) is int:
        return checked(-value)
    if type(value) is float:
        return -value
    raise no_such_overload()


def _not(value: Any) -> bool:
    if type(value) is bool:
        return not value
    raise no_such_overload()


def _unsigned(value: int) -> UInt:
    if 0 <= value < 2**64:
        return UInt(value)
    raise CelError("unsigned integer overflow")


_NUMBERS = (INT, UINT, DOUBLE)
_COMPARABLE = [
    *((one, other) for one in _NUMBERS for other in _NUMBERS),
    *((each, each) for each in (BOOL, STRING, BYTES, TIMESTAMP, DURATION)),
]


def _comparison(accept: set[int]) -> list[Overload]:
    def call(one: Any, other: Any) -> bool:
        return compare(one, other) in accept

    return [function(pair, BOOL, call) for pair in _COMPARABLE]


OPERATORS: dict[str, list[Overload]] = {
    "_==_": [function((A, A), BOOL, equal)],
    "_!=_": [function((A, A), BOOL, lambda one, other: not equal(one, other))],
    "_<_": _comparison({-1}),
    "_<=_": _comparison({-1, 0}),
    "_>_": _comparison({1}),
    "_>=_": _comparison({0, 1}),
    "_+_": [
        *(function((each, each), each, _add) for each in (INT, UINT, DOUBLE, STRING, BYTES, DURATION)),
        function((list_of(A), list_of(A)), list_of(A), _add),
        function((TIMESTAMP, DURATION), TIMESTAMP, _add),
        function((DURATION, TIMESTAMP), TIMESTAMP, _add),
    ],
    "_-_": [
        *(function((each, each), each, _subtract) for each in (INT, UINT, DOUBLE, DURATION)),
        function((TIMESTAMP, TIMESTAMP), DURATION, _subtract),
        function((TIMESTAMP, DURATION), TIMESTAMP, _subtract),
    ],
    "_*_": [function((each, each), each, _multiply) for each in _NUMBERS],
    "_/_": [function((each, each), each, _divide) for each in _NUMBERS],
    "_%_": [function((each, each), each, _remainder) for each in (INT, UINT)],
    "!_": [function((BOOL,), BOOL, _not)],
    "-_": [function((INT,), INT, _negate), function((DOUBLE,), DOUBLE, _negate)],
    "@in": [
        function((A, list_of(A)), BOOL, _contains),
        function((A, map_of(A, B)), BOOL, _contains),
    ],
}
