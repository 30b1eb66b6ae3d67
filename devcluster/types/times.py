"""Times in Kubernetes' format: RFC 3339, UTC, whole seconds or microseconds."""

from __future__ import annotations

import datetime
import re

__all__ = ["InvalidTime", "from_seconds", "normal_micro_time", "normal_time"]

_SIMPLE = re.compile(
    r"(?!0000)\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\dZ", re.ASCII
)
_SIMPLE_MICRO = re.compile(rf"{_SIMPLE.pattern[:-1]}[.]\d{{6}}Z", re.ASCII)
_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_STEPS = (
    ("2006", r"\d{4}"),
    ("-", "-"),
    ("01", r"\d\d"),
    ("-", "-"),
    ("02", r"\d\d"),
    ("T", "T"),
    ("15", r"\d\d?"),
    (":", ":"),
    ("04", r"\d\d"),
    (":", ":"),
    ("05", r"\d\d"),
)
_RANGES = (
    ("month", 1, 1, 12),
    ("day", 2, 1, 31),
    ("hour", 3, 0, 23),
    ("minute", 4, 0, 59),
    ("second", 5, 0, 59),
)
_FRACTION = re.compile(r"[.,]\d+")
_MICROS = re.compile(r"[.,]\d{6}")
_ZONE = re.compile(r"Z|[+-]\d\d:\d\d")
_MAX_ZONE_HOURS = 24
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class InvalidTime(ValueError):
    """Not a time; the text is the server's."""


def normal_time(text: str) -> str:
    """Convert a time to UTC without fractions of a second.

    Raises:
        InvalidTime: the text is not a time.
    """
    if _SIMPLE.fullmatch(text):
        return text
    return _parse(text, _LAYOUT).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def normal_micro_time(text: str) -> str:
    """Convert a time with microseconds to UTC; the six digits are required.

    Raises:
        InvalidTime: the text is not such a time.
    """
    if _SIMPLE_MICRO.fullmatch(text):
        return text
    return _parse(text, _MICRO_LAYOUT).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def from_seconds(seconds: int, nanos: int = 0, *, micro: bool = False) -> str:
    """Format a time given in seconds since 1970, as protobuf has it.

    Raises:
        InvalidTime: the time is out of range.
    """
    try:
        moment = _EPOCH + datetime.timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise InvalidTime("Time.MarshalJSON: year outside of range [0,9999]") from None
    digits = ".%f" if micro else ""
    return moment.strftime(f"%Y-%m-%dT%H:%M:%S{digits}Z").rjust(27 if micro else 20, "0")


def _parse(text: str, layout: str) -> datetime.datetime:
    position = 0
    fields = []
    for name, pattern in _STEPS:
        match = re.compile(pattern, re.ASCII).match(text, position)
        if match is None:
            raise _unreadable(text, layout, text[position:], name)
        if name.isdigit():
            fields.append(int(match[0]))
        position = match.end()
    fraction = (_MICROS if layout == _MICRO_LAYOUT else _FRACTION).match(text, position)
    if layout == _MICRO_LAYOUT and fraction is None:
        raise _unreadable(text, layout, text[position:], ".000000")
    micros = int(fraction[0][1:7].ljust(6, "0")) if fraction else 0
    position = fraction.end() if fraction else position
    zone = _ZONE.match(text, position)
    if zone is None:
        raise _unreadable(text, layout, text[position:], "Z07:00")
    if zone.end() != len(text):
        raise InvalidTime(f"parsing time {_quoted(text)}: extra text: {_quoted(text[zone.end() :])}")
    return _moment(text, fields, micros, zone[0])


def _moment(text: str, fields: list[int], micros: int, zone: str) -> datetime.datetime:
    for name, index, least, most in _RANGES:
        if not least <= fields[index] <= most:
            raise InvalidTime(f"parsing time {_quoted(text)}: {name} out of range")
    offset = datetime.timedelta()
    if zone != "Z":
        if int(zone[1:3]) > _MAX_ZONE_HOURS:
            raise InvalidTime(f"parsing time {_quoted(text)}: time zone offset hour out of range")
        offset = datetime.timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6])) * (
            -1 if zone[0] == "-" else 1
        )
    year, month, day, hour, minute, second = fields
    try:
        moment = datetime.datetime(year, month, day, hour, minute, second, micros, datetime.UTC)
        return moment - offset
    except (ValueError, OverflowError):  # the month is shorter, or the year out of range
        raise InvalidTime(f"parsing time {_quoted(text)}: day out of range") from None


def _unreadable(text: str, layout: str, rest: str, wanted: str) -> InvalidTime:
    reading = f"parsing time {_quoted(text)} as {_quoted(layout)}"
    return InvalidTime(f"{reading}: cannot parse {_quoted(rest)} as {_quoted(wanted)}")


def _quoted(text: str) -> str:
    escaped = "".join(
        f"\\{char}" if char in '"\\' else char if " " <= char < "\x7f" else _bytes_of(char) for char in text
    )
    return f'"{escaped}"'


def _bytes_of(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))
