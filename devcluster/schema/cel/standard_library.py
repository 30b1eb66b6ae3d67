"""The functions of CEL itself: sizes, conversions, time, and optional values."""

from __future__ import annotations

import datetime
import math
import zoneinfo
from collections.abc import Callable
from typing import Any

from devcluster.schema.cel.errors import CelError, no_such_overload
from devcluster.schema.cel.functions import Table, function, method
from devcluster.schema.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    A,
    B,
    Type,
    list_of,
    map_of,
    optional_of,
    type_of,
)
from devcluster.schema.cel.values import (
    NONE,
    Duration,
    Optional,
    Timestamp,
    UInt,
    checked,
    to_duration,
    to_string,
    to_timestamp,
    type_of_value,
)

__all__ = ["FUNCTIONS"]

_SECOND = 10**9


def _unreadable(wanted: str) -> CelError:
    return CelError(f"type conversion error from 'string' to '{wanted}'")


def _to_int(value: Any) -> int:
    kind = type(value)
    if kind in {int, UInt}:
        return checked(int(value))
    if kind is float:
        if not math.isfinite(value) or not -(2.0**63) < value < 2.0**63:
            raise CelError("integer overflow")
        return int(value)
    if kind is Timestamp:
        return int(value.nanoseconds // _SECOND)
    if kind is Duration:
        return int(value.nanoseconds)
    if kind is str:
        try:
            return checked(int(value, 10))
        except ValueError:
            raise _unreadable("int") from None
    raise no_such_overload()


def _to_uint(value: Any) -> UInt:
    if type(value) is str and not value.isdecimal():
        raise _unreadable("uint")
    whole = int(value)
    if not 0 <= whole < 2**64:
        raise CelError("unsigned integer overflow")
    return UInt(whole)


def _to_double(value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        raise _unreadable("double") from None


def _to_bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    known = {"1": True, "t": True, "T": True, "true": True, "TRUE": True, "True": True}
    known |= {"0": False, "f": False, "F": False, "false": False, "FALSE": False, "False": False}
    if value in known:
        return known[value]
    raise _unreadable("bool")


def _timestamp(value: Any) -> Timestamp:
    if type(value) is Timestamp:
        return value
    if type(value) is int:
        return Timestamp(value * _SECOND)
    found = to_timestamp(value)
    if found is None:
        raise _unreadable("google.protobuf.Timestamp")
    return found


def _duration(value: Any) -> Duration:
    if type(value) is Duration:
        return value
    if type(value) is int:
        return Duration(value)
    found = to_duration(value)
    if found is None:
        raise _unreadable("google.protobuf.Duration")
    return found


def _zone(name: str) -> datetime.tzinfo:
    if len(name) in {5, 6} and name[-3:-2] == ":":
        sign = -1 if name[0] == "-" else 1
        hours, minutes = name.lstrip("+-").split(":")
        return datetime.timezone(sign * datetime.timedelta(hours=int(hours), minutes=int(minutes)))
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise CelError(f"unknown time zone {name}") from None


def _part(read: Callable[[datetime.datetime], int]) -> Callable[..., int]:
    def part(value: Timestamp, zone: str = "UTC") -> int:
        try:
            return read(value.at(datetime.UTC if zone == "UTC" else _zone(zone)))
        except OverflowError:
            raise CelError("timestamp out of range") from None  # the real server accepts a year or two more

    return part


_PARTS: dict[str, Callable[[datetime.datetime], int]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
    "getMilliseconds": lambda moment: moment.microsecond // 1000,
}


def _whole(unit: int) -> Callable[[Duration], int]:
    return lambda value: math.trunc(value.nanoseconds / unit)


def _value(optional: Optional) -> Any:
    if not optional.present:
        raise CelError("optional.none() dereference")
    return optional.value


def _is_zero(value: Any) -> bool:
    return value is None or (isinstance(value, int | float | str | bytes | list | dict) and not value)


_OPTIONAL = optional_of(A)
_SIZED: tuple[Type, ...] = (STRING, BYTES, list_of(A), map_of(A, B))

FUNCTIONS: Table = {
    "size": [form((each,), INT, len) for each in _SIZED for form in (function, method)],
    "type": [function((A,), type_of(A), type_of_value)],
    "dyn": [function((A,), DYN, lambda value: value)],
    "int": [function((each,), INT, _to_int) for each in (INT, UINT, DOUBLE, STRING, TIMESTAMP, DURATION)],
    "uint": [function((each,), UINT, _to_uint) for each in (UINT, INT, DOUBLE, STRING)],
    "double": [function((each,), DOUBLE, _to_double) for each in (DOUBLE, INT, UINT, STRING)],
    "bool": [function((each,), BOOL, _to_bool) for each in (BOOL, STRING)],
    "string": [
        function((each,), STRING, to_string)
        for each in (STRING, INT, UINT, DOUBLE, BOOL, BYTES, TIMESTAMP, DURATION)
    ],
    "bytes": [function((STRING,), BYTES, str.encode), function((BYTES,), BYTES, lambda value: value)],
    "timestamp": [function((each,), TIMESTAMP, _timestamp) for each in (STRING, TIMESTAMP, INT)],
    "duration": [function((each,), DURATION, _duration) for each in (STRING, DURATION, INT)],
    **{
        name: [method((TIMESTAMP,), INT, _part(read)), method((TIMESTAMP, STRING), INT, _part(read))]
        for name, read in _PARTS.items()
    },
    "optional.of": [function((A,), _OPTIONAL, Optional)],
    "optional.none": [function((), optional_of(DYN), lambda: NONE)],
    "optional.ofNonZeroValue": [
        function((A,), _OPTIONAL, lambda value: NONE if _is_zero(value) else Optional(value))
    ],
    "hasValue": [method((_OPTIONAL,), BOOL, lambda optional: optional.present)],
    "value": [method((_OPTIONAL,), A, _value)],
    "or": [method((_OPTIONAL, _OPTIONAL), _OPTIONAL, lambda one, other: one if one.present else other)],
    "orValue": [method((_OPTIONAL, A), A, lambda one, other: one.value if one.present else other)],
}
_DURATION_PARTS = {
    "getHours": 3600 * _SECOND,
    "getMinutes": 60 * _SECOND,
    "getSeconds": _SECOND,
    "getMilliseconds": 10**6,
}
for _name, _unit in _DURATION_PARTS.items():
    FUNCTIONS[_name].append(method((DURATION,), INT, _whole(_unit)))
