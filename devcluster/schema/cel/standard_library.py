"""Standard functions of CEL, and the extensions for strings and lists."""

from __future__ import annotations

import datetime
import functools
import itertools
import json
import math
import re
import zoneinfo
from collections.abc import Callable
from typing import Any

from devcluster.quantity import parse_integer
from devcluster.schema.cel.operators import OPERATORS
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
    CelError,
    Table,
    Type,
    function,
    list_of,
    map_of,
    method,
    no_such_overload,
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
    checked_timestamp,
    compare,
    equal,
    to_duration,
    to_string,
    to_timestamp,
    type_of_value,
)
from devcluster.schema.patterns import compile_pattern

_SECOND = 10**9
_NO_SPACE = re.compile("[!-~]+")


def _unreadable(wanted: str, given: str = "string") -> CelError:
    return CelError(f"type conversion error from '{given}' to '{wanted}'")


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
        number = parse_integer(value)
        if number is None or not -(2**63) <= number < 2**63:
            raise _unreadable("int")
        return number
    raise no_such_overload()


def _to_uint(value: Any) -> UInt:
    if type(value) is str:
        number = parse_integer(value) if value[:1] not in {"+", "-"} else None
        if number is None or number >= 2**64:
            raise _unreadable("uint")
        return UInt(number)
    if not 0 <= value < 2**64:
        raise CelError("unsigned integer overflow")
    return UInt(value)


def _to_double(value: Any) -> float:
    try:
        number = float(value)
    except ValueError:
        raise _unreadable("double") from None
    if isinstance(value, str) and not (_NO_SPACE.fullmatch(value) and _is_inf(value) == math.isinf(number)):
        raise _unreadable("double")
    return number


def _is_inf(text: str) -> bool:
    return text.lstrip("+-").lower() in {"inf", "infinity"}


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
        return checked_timestamp(value * _SECOND)
    found = to_timestamp(value)
    if found is None:
        raise _unreadable("google.protobuf.Timestamp")
    return checked_timestamp(found.nanoseconds)


def _duration(value: Any) -> Duration:
    if type(value) is Duration:
        return value
    if type(value) is int:  # valid only for the type checker
        raise _unreadable("google.protobuf.Duration", "int")
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


_add = OPERATORS["_+_"][0].call
_sort = functools.partial(sorted, key=functools.cmp_to_key(compare))
_COMPARABLE = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
_LIST = list_of(A)
_RANGE_LIMIT = 100_000


def _is_sorted(items: list[Any]) -> bool:
    return all(compare(one, other) <= 0 for one, other in itertools.pairwise(items))


def _sum(empty: Any) -> Callable[[list[Any]], Any]:
    return lambda items: functools.reduce(_add, items) if items else empty


def _extreme(wanted: int, name: str) -> Callable[[list[Any]], Any]:
    def call(items: list[Any]) -> Any:
        if not items:
            raise CelError(f"{name} called on empty list")
        return functools.reduce(lambda best, each: each if compare(each, best) == wanted else best, items)

    return call


def _index_of(items: list[Any], item: Any) -> int:
    return next((at for at, each in enumerate(items) if equal(each, item)), -1)


def _last_index_of(items: list[Any], item: Any) -> int:
    return next((at for at in reversed(range(len(items))) if equal(items[at], item)), -1)


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    found: list[Any] = []
    for each in items:
        if isinstance(each, list) and depth > 0:
            found.extend(_flatten(each, depth - 1))
        else:
            found.append(each)
    return found


def _distinct(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for each in items:
        if not any(equal(each, have) for have in found):
            found.append(each)
    return found


def _range(size: int) -> list[int]:
    if size > _RANGE_LIMIT:
        raise CelError("operation cancelled: actual cost limit exceeded")
    return list(range(size))


def _has_all(items: list[Any], wanted: list[Any]) -> bool:
    return all(any(equal(each, have) for have in items) for each in wanted)


def _same_members(one: list[Any], other: list[Any]) -> bool:
    return _has_all(one, other) and _has_all(other, one)


COLLECTIONS: Table = {
    "isSorted": [method((list_of(each),), BOOL, _is_sorted) for each in _COMPARABLE],
    "sum": [
        method((list_of(kind),), kind, _sum(empty))
        for kind, empty in ((INT, 0), (UINT, 0), (DOUBLE, 0.0), (DURATION, Duration(0)))
    ],
    "min": [method((list_of(each),), each, _extreme(-1, "min")) for each in _COMPARABLE],
    "max": [method((list_of(each),), each, _extreme(1, "max")) for each in _COMPARABLE],
    "indexOf": [method((_LIST, A), INT, _index_of)],
    "lastIndexOf": [method((_LIST, A), INT, _last_index_of)],
    "slice": [method((_LIST, INT, INT), _LIST, _slice)],
    "flatten": [
        method((list_of(_LIST),), _LIST, _flatten),
        method((list_of(DYN), INT), list_of(DYN), _flatten),
    ],
    "distinct": [method((_LIST,), _LIST, _distinct)],
    "reverse": [method((_LIST,), _LIST, lambda items: items[::-1])],
    "sort": [method((list_of(each),), list_of(each), _sort) for each in _COMPARABLE],
    "first": [method((_LIST,), optional_of(A), lambda items: Optional(items[0]) if items else NONE)],
    "last": [method((_LIST,), optional_of(A), lambda items: Optional(items[-1]) if items else NONE)],
    "lists.range": [function((INT,), list_of(INT), _range)],
    "sets.contains": [function((_LIST, _LIST), BOOL, _has_all)],
    "sets.equivalent": [function((_LIST, _LIST), BOOL, _same_members)],
    "sets.intersects": [
        function(
            (_LIST, _LIST), BOOL, lambda one, other: any(equal(each, have) for each in one for have in other)
        )
    ],
}


_VERB = re.compile(r"%(?:\.(\d+))?([a-zA-Z%])")
_TEXTS = list_of(STRING)
_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_SPACE = " \t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"  # noqa: E501


def _pattern(pattern: str) -> Any:
    try:
        return compile_pattern(pattern)
    except ValueError as error:
        raise CelError(str(error)) from error


def _matches(text: str, pattern: str) -> bool:
    return _pattern(pattern).search(text) is not None


def _find(text: str, pattern: str) -> str:
    found = _pattern(pattern).search(text)
    return found.group() if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    # re2 finds the empty text within a character too, and gives it the start of the next character.
    by_start = {each.start(): each for each in _pattern(pattern).finditer(text)}
    found: list[str] = []
    end = -1
    for each in by_start.values():
        if each.end() > end:  # Go leaves out an empty match after another match
            found.append(each.group())
            end = each.end()
    return found if limit < 0 else found[:limit]


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


def _text_index_of(text: str, part: str, start: int = 0) -> int:
    if start < 0:
        raise CelError(f"index out of range: {start}")
    return text.find(part, start)


def _last_text_index_of(text: str, part: str, end: int | None = None) -> int:
    if end is None:
        return text.rfind(part)
    if not 0 <= end <= len(text):
        raise CelError(f"index out of range: {end}")
    return text.rfind(part, 0, end + len(part))


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    if not 0 <= end <= len(text):
        raise CelError(f"index out of range: {end}")
    if start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    return text[start:end]


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        parts = list(text)
        return (
            parts if limit < 0 or len(parts) <= limit else [*parts[: limit - 1], "".join(parts[limit - 1 :])]
        )
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _format(template: str, args: list[Any]) -> str:
    at = 0

    def fill(matched: re.Match[str]) -> str:
        nonlocal at
        precision, verb = matched.groups()
        if verb == "%":
            return "%"
        if at >= len(args):
            raise CelError(f"error during formatting: index {at} out of range")
        value = args[at]
        at += 1
        return _formatted(verb, value, None if precision is None else int(precision))

    return _VERB.sub(fill, template)


def _formatted(verb: str, value: Any, precision: int | None) -> str:
    number = type(value) is not bool and isinstance(value, int)
    if verb == "s":
        return _shown(value)
    if verb == "d" and number:
        return str(int(value))
    if verb in {"f", "e"} and isinstance(value, int | float):
        return f"{float(value):.{6 if precision is None else precision}{verb}}"
    if verb == "b" and isinstance(value, int):
        return f"{int(value):b}"
    if verb in {"x", "X"} and isinstance(value, str | bytes):
        digits = (value.encode() if isinstance(value, str) else value).hex()
        return digits.upper() if verb == "X" else digits
    if verb in {"x", "X", "o"} and number:
        return format(int(value), verb)
    raise CelError(f'error during formatting: unrecognized formatting clause "{verb}"')


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{', '.join(_quoted(each) for each in value)}]"
    if isinstance(value, dict):
        inner = ", ".join(f"{_quoted(key)}:{_quoted(value[key])}" for key in sorted(value, key=str))
        return f"{{{inner}}}"
    return to_string(value)


def _quoted(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Timestamp | Duration):
        return f'{"timestamp" if isinstance(value, Timestamp) else "duration"}("{to_string(value)}")'
    return _shown(value)


def _contains(text: Any, part: Any) -> bool:
    if type(text) is str and type(part) is str:
        return part in text
    raise no_such_overload()


TEXTS: Table = {
    "contains": [method((STRING, STRING), BOOL, _contains)],
    "startsWith": [method((STRING, STRING), BOOL, str.startswith)],
    "endsWith": [method((STRING, STRING), BOOL, str.endswith)],
    "matches": [form((STRING, STRING), BOOL, _matches) for form in (function, method)],
    "find": [method((STRING, STRING), STRING, _find)],
    "findAll": [
        method((STRING, STRING), _TEXTS, _find_all),
        method((STRING, STRING, INT), _TEXTS, _find_all),
    ],
    "charAt": [method((STRING, INT), STRING, _char_at)],
    "indexOf": [
        method((STRING, STRING), INT, _text_index_of),
        method((STRING, STRING, INT), INT, _text_index_of),
    ],
    "lastIndexOf": [
        method((STRING, STRING), INT, _last_text_index_of),
        method((STRING, STRING, INT), INT, _last_text_index_of),
    ],
    "lowerAscii": [method((STRING,), STRING, lambda text: text.translate(_LOWER))],
    "upperAscii": [method((STRING,), STRING, lambda text: text.translate(_UPPER))],
    "replace": [
        method((STRING, STRING, STRING), STRING, str.replace),
        method((STRING, STRING, STRING, INT), STRING, str.replace),
    ],
    "split": [method((STRING, STRING), _TEXTS, _split), method((STRING, STRING, INT), _TEXTS, _split)],
    "substring": [method((STRING, INT), STRING, _substring), method((STRING, INT, INT), STRING, _substring)],
    "trim": [method((STRING,), STRING, lambda text: text.strip(_SPACE))],
    "join": [
        method((_TEXTS,), STRING, "".join),
        method((_TEXTS, STRING), STRING, lambda parts, between: between.join(parts)),
    ],
    "format": [method((STRING, list_of(DYN)), STRING, _format)],
    "strings.quote": [function((STRING,), STRING, _quoted)],
}
