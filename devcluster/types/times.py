"""Canonical forms of times and quantities, as the server returns them."""

from __future__ import annotations

import datetime
import functools
import re
from fractions import Fraction

_PATTERN = re.compile(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?+(.*)", re.DOTALL)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,9})")
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIX = {power: suffix for suffix, power in _BINARY.items()} | {0: ""}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_SUFFIX = re.compile(r"[eEinumkKMGTP]*[-+]?[0-9]*")
_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_LIMIT = 2**63 - 1
_TOO_LONG = 1000  # longer numbers would take time; the real server accepts them
_DIGITS_KEPT = 18
_BINARY_DIGITS_KEPT = 15


class InvalidQuantity(ValueError):
    """Error for an invalid quantity; the message is the server's."""


@functools.lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """Return the canonical form of a quantity; raise InvalidQuantity if the text is not a quantity."""
    match = _PATTERN.fullmatch(text)
    if match is None or not 0 < len(text) < _TOO_LONG:
        raise InvalidQuantity(_FORMAT)
    sign, whole, part, suffix = match[1], match[2].lstrip("0") or "0", match[3] or "", match[4]
    if _SUFFIX.fullmatch(suffix) is None:
        raise InvalidQuantity(_FORMAT)
    digits = Fraction(int(whole + part), 10 ** len(part)) * (-1 if sign == "-" else 1)
    if suffix in _BINARY:
        if not part and _is_plain_binary(whole, _BINARY[suffix]):
            return text
        return _binary(_nanos(digits * 1024 ** _BINARY[suffix]))
    exponent = _EXPONENT.fullmatch(suffix)
    if suffix not in _DECIMAL and exponent is None:
        raise InvalidQuantity("unable to parse quantity's suffix")
    power = int(exponent[1]) if suffix not in _DECIMAL and exponent is not None else _DECIMAL[suffix]
    if _is_plain_decimal(whole, part, power):
        return text
    power = max(-60, min(60, power))  # larger exponents exceed the kept digits anyway
    return _decimal(_nanos(digits * Fraction(10) ** power), exponent=suffix not in _DECIMAL)


def _is_plain_decimal(whole: str, part: str, power: int) -> bool:
    """Return whether the server keeps this decimal quantity as it is, because it counts as canonical."""
    scale = power - len(part)
    shifted = whole + part
    return (
        len(shifted) <= _DIGITS_KEPT
        and scale >= min(_DECIMAL_SUFFIX)
        and scale % 3 == 0
        and not shifted.endswith("000")
        and shifted[0] != "0"
    )


def _is_plain_binary(whole: str, power: int) -> bool:
    """Return whether an integer with a binary suffix is already in canonical form."""
    return len(whole) + 3 * power < _BINARY_DIGITS_KEPT and int(whole) & 7 != 0


def _nanos(value: Fraction) -> int:
    """Return the value in billionths, rounded away from zero."""
    scaled = abs(value) * 10**9
    rounded = -(-scaled.numerator // scaled.denominator)
    return -rounded if value < 0 else rounded


def _decimal(nanos: int, *, exponent: bool) -> str:
    if nanos == 0:
        return "0"
    power = -9
    while nanos % 1000 == 0 and (exponent or power < max(_DECIMAL_SUFFIX)):
        nanos //= 1000
        power += 3
    if exponent:
        return f"{nanos}e{power}" if power else str(nanos)
    return f"{nanos}{_DECIMAL_SUFFIX[power]}"


def _binary(nanos: int) -> str:
    if abs(nanos) < 1024 * 10**9:
        return _decimal(nanos, exponent=False)
    value = min(-(-abs(nanos) // 10**9), _LIMIT)
    power = 0
    while value % 1024 == 0 and power < max(_BINARY_SUFFIX):
        value //= 1024
        power += 1
    return f"{'-' if nanos < 0 else ''}{value}{_BINARY_SUFFIX[power]}"


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
_MAX_ZONE_HOURS, _MAX_ZONE_MINUTES = 24, 60
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class InvalidTime(ValueError):
    """Error for an invalid time; the message is the server's."""


def normal_time(text: str) -> str:
    """Convert a time to UTC, without fractions of a second; raise InvalidTime if it is invalid."""
    if _SIMPLE.fullmatch(text):
        return text
    return _parse(text, _LAYOUT).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def normal_micro_time(text: str) -> str:
    """Convert a MicroTime, which has exactly six fractional digits, to UTC; raise InvalidTime if invalid."""
    if _SIMPLE_MICRO.fullmatch(text):
        return text
    return _parse(text, _MICRO_LAYOUT).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def from_seconds(seconds: int, nanos: int = 0, *, micro: bool = False) -> str:
    """Format seconds since 1970 and nanoseconds as a time; raise InvalidTime if it is out of range."""
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
        if int(zone[4:6]) > _MAX_ZONE_MINUTES:
            raise InvalidTime(f"parsing time {_quoted(text)}: time zone offset minute out of range")
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
