"""Values that JSON lacks, and the comparison, arithmetic and formatting of all values."""

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
_TIMESTAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class UInt(int):
    """An unsigned integer."""

    __slots__ = ()


class LazyFields:
    """The variables of a policy, each evaluated when it is first needed."""

    __slots__ = ("_evaluate", "_known")

    def __init__(self, evaluate: Callable[[str], Any]) -> None:
        self._evaluate = evaluate
        self._known: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """Return the value; raises CelError if its expression fails."""
        if name not in self._known:
            self._known[name] = self._evaluate(name)
        return self._known[name]


class SetList(list[Any]):
    """A list whose order does not matter (`x-kubernetes-list-type: set`)."""

    __slots__ = ()


class MapList(list[Any]):
    """A list of objects told apart by `keys` (`x-kubernetes-list-type: map`)."""

    __slots__ = ("keys",)

    def __init__(self, items: list[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A time as nanoseconds since the epoch."""

    nanoseconds: int

    def at(self, zone: datetime.tzinfo) -> datetime.datetime:
        """Return the time as date and time of day in a zone."""
        return (_EPOCH + datetime.timedelta(microseconds=self.nanoseconds // 1000)).astimezone(zone)


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A duration in nanoseconds."""

    nanoseconds: int


@dataclasses.dataclass(frozen=True, slots=True)
class Optional:
    """A value that may not be there."""

    value: Any = None
    present: bool = True


NONE: Final = Optional(present=False)


def to_timestamp(text: str) -> Timestamp | None:
    """Parse an RFC 3339 time; None for other text."""
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
        offset = int(zone[1:3]) * 3600 + int(zone[4:6]) * 60
        seconds -= offset if zone[0] == "+" else -offset
    return Timestamp(seconds * _SECOND + int(fraction.ljust(9, "0")[:9] or 0))


def to_duration(text: str) -> Duration | None:
    """Parse a duration such as `1h30m`; None for other text."""
    nanoseconds = parse_duration(text)
    return None if nanoseconds is None else Duration(nanoseconds)


def show_timestamp(value: Timestamp) -> str:
    """Format a time by RFC 3339, with as many digits of the second as needed."""
    seconds, rest = divmod(value.nanoseconds, _SECOND)
    text = (_EPOCH + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{rest:09d}".rstrip("0") + "Z" if rest else f"{text}Z"


def show_duration(value: Duration) -> str:
    """Format a duration in seconds: `5400s`, `0.5s`."""
    sign = "-" if value.nanoseconds < 0 else ""
    seconds, rest = divmod(abs(value.nanoseconds), _SECOND)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{sign}{seconds}{fraction}s"


def checked(value: int) -> int:
    """Return `value` if it fits into an int.

    Raises:
        CelError: it does not fit.
    """
    if -_INT_LIMIT <= value < _INT_LIMIT:
        return value
    raise CelError("integer overflow")


def equal(one: Any, other: Any) -> bool:
    """Compare for equality as CEL does: across types only for numbers."""
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
    """Compare: -1, 0 or 1, and 2 with NaN.

    Raises:
        CelError: the values have no order.
    """
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
    """Convert a value as `string(value)` does.

    Raises:
        CelError: the value has no string conversion.
    """
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
    """Return the type as `type(value)` does."""
    found = _TYPES.get(type(value))
    return found if found is not None else Type(getattr(value, "type_name", "dyn"))
