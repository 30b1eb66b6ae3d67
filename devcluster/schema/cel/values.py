"""Values of CEL that JSON does not have, and comparison, arithmetic and formatting of all values."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Callable
from typing import Any, Final

from devcluster.quantity import show_float
from devcluster.schema.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    CelError,
    Type,
    list_of,
    map_of,
    no_such_overload,
    optional_of,
)
from devcluster.schema.formats import parse_duration

_SECOND: Final = 10**9
_INT_LIMIT: Final = 2**63
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SECONDS = range(-62_135_596_800, 253_402_300_800)
"""The years 1 to 9999 in seconds since the epoch."""
_MOST_HOURS, _MOST_MINUTES = 24, 60
"""Of a time zone's offset; Go allows both."""


class UInt(int):
    """Unsigned integer of CEL."""

    __slots__ = ()


class LazyFields:
    """Variables of an admission policy; each is evaluated at its first use."""

    __slots__ = ("_evaluate", "_known")

    def __init__(self, evaluate: Callable[[str], Any]) -> None:
        self._evaluate = evaluate
        self._known: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """Return the value of a variable; raise CelError if its expression fails."""
        if name not in self._known:
            self._known[name] = self._evaluate(name)
        return self._known[name]


class SetList(list[Any]):
    """List whose order does not matter for equality (`x-kubernetes-list-type: set`)."""

    __slots__ = ()


class MapList(list[Any]):
    """List of objects, each identified by its fields `keys` (`x-kubernetes-list-type: map`)."""

    __slots__ = ("keys",)

    def __init__(self, items: list[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """Timestamp, in nanoseconds since the epoch."""

    nanoseconds: int

    def at(self, zone: datetime.tzinfo) -> datetime.datetime:
        """Return the timestamp as a datetime in a time zone."""
        return (_EPOCH + datetime.timedelta(microseconds=self.nanoseconds // 1000)).astimezone(zone)


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Duration:
    """Duration, in nanoseconds."""

    nanoseconds: int


@dataclasses.dataclass(frozen=True, slots=True)
class Optional:
    """Optional value of CEL, which may be absent."""

    value: Any = None
    present: bool = True


NONE: Final = Optional(present=False)


def to_timestamp(text: str) -> Timestamp | None:
    """Parse a time in RFC 3339 format; return None for any other text."""
    matched = _TIMESTAMP.fullmatch(text)
    if matched is None:
        return None
    fraction, zone = matched[7] or "", matched[8]
    try:
        moment = datetime.datetime(*(int(matched[at]) for at in range(1, 7)), tzinfo=datetime.UTC)  # type: ignore[arg-type,misc] # six numbers
    except ValueError:
        return None
    seconds = int((moment - _EPOCH).total_seconds())
    if zone not in {"Z", "z"}:
        hours, minutes = int(zone[1:3]), int(zone[4:6])
        if hours > _MOST_HOURS or minutes > _MOST_MINUTES:
            return None
        offset = hours * 3600 + minutes * 60
        seconds -= offset if zone[0] == "+" else -offset
    return Timestamp(seconds * _SECOND + int(fraction.ljust(9, "0")[:9] or 0))


def checked_timestamp(nanoseconds: int) -> Timestamp:
    """Return the timestamp at these nanoseconds; raise CelError if its year is not between 1 and 9999."""
    if nanoseconds // _SECOND not in _SECONDS:
        raise CelError("timestamp overflow")
    return Timestamp(nanoseconds)


def to_duration(text: str) -> Duration | None:
    """Parse a duration such as `1h30m`; return None for any other text."""
    nanoseconds = parse_duration(text)
    return None if nanoseconds is None else Duration(nanoseconds)


def show_timestamp(value: Timestamp) -> str:
    """Format a timestamp by RFC 3339, with as many fractional digits as needed."""
    seconds, rest = divmod(value.nanoseconds, _SECOND)
    text = (_EPOCH + datetime.timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()
    return f"{text}.{rest:09d}".rstrip("0") + "Z" if rest else f"{text}Z"


def show_duration(value: Duration) -> str:
    """Format a duration in seconds: `5400s`, `0.5s`."""
    sign = "-" if value.nanoseconds < 0 else ""
    seconds, rest = divmod(abs(value.nanoseconds), _SECOND)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{sign}{seconds}{fraction}s"


def checked(value: int) -> int:
    """Return `value` if it fits into 64 bits; raise CelError otherwise."""
    if -_INT_LIMIT <= value < _INT_LIMIT:
        return value
    raise CelError("integer overflow")


def equal(one: Any, other: Any) -> bool:
    """Return whether values are equal in CEL, where only numbers can be equal across types."""
    kind, wanted = type(one), type(other)
    if kind is wanted and kind not in {dict, list, SetList, MapList, Optional}:
        return bool(one == other)
    if kind is dict and wanted is dict:
        return len(one) == len(other) and all(
            name in other and equal(each, other[name]) for name, each in one.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        return _equal_lists(one, other)
    if kind is bool or wanted is bool:
        return False
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    if kind is Optional and wanted is Optional:
        return one.present == other.present and (not one.present or equal(one.value, other.value))
    return False


def _equal_lists(one: list[Any], other: list[Any]) -> bool:
    if len(one) != len(other):
        return False
    if type(one) is SetList or type(other) is SetList:
        return all(any(equal(each, candidate) for candidate in other) for each in one)
    keyed = one if type(one) is MapList else other
    if type(keyed) is MapList:
        by_key = {_key_of(each, keyed.keys): each for each in other}
        return all((key := _key_of(each, keyed.keys)) in by_key and equal(each, by_key[key]) for each in one)
    return all(map(equal, one, other))


def _key_of(item: Any, keys: tuple[str, ...]) -> tuple[Any, ...]:
    return (
        tuple((type(item.get(key)), str(item.get(key))) for key in keys)
        if isinstance(item, dict)
        else (repr(item),)
    )


def compare(one: Any, other: Any) -> int:
    """Compare two values: -1, 0, 1, or 2 if one is NaN; raise CelError if their types have no order."""
    kind, wanted = type(one), type(other)
    numbers = (
        kind is not bool
        and wanted is not bool
        and isinstance(one, int | float)
        and isinstance(other, int | float)
    )
    if not numbers and (kind is not wanted or kind not in {str, bytes, bool, Timestamp, Duration}):
        raise no_such_overload()
    if one < other:
        return -1
    return 1 if one > other else 0 if one == other else 2


_SHOW: dict[type, Callable[[Any], str]] = {
    str: str,
    int: str,
    UInt: lambda value: str(int(value)),
    float: show_float,
    bool: lambda value: "true" if value else "false",
    Timestamp: show_timestamp,
    Duration: show_duration,
}


def to_string(value: Any) -> str:
    """Convert a value as CEL's `string(value)` does; raise CelError if CEL cannot convert it."""
    show = _SHOW.get(type(value))
    if show is not None:
        return show(value)
    if type(value) is bytes:
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None
    raise no_such_overload()


_TYPES: dict[type, Type] = {
    type(None): NULL,
    bool: BOOL,
    int: INT,
    UInt: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    Timestamp: TIMESTAMP,
    Duration: DURATION,
    list: list_of(DYN),
    SetList: list_of(DYN),
    MapList: list_of(DYN),
    dict: map_of(DYN, DYN),
    Optional: optional_of(DYN),
    Type: TYPE,
}


def type_of_value(value: Any) -> Type:
    """Return the CEL type of a value, as `type(value)` does."""
    found = _TYPES.get(type(value))
    return found if found is not None else Type(getattr(value, "type_name", "dyn"))
