"""Durations as Go reads them: `15s`, `1m30s`, `1.5h`, `300ms`."""

from __future__ import annotations

import re
from decimal import Decimal

_SECONDS = {
    "ns": Decimal("0.000000001"),
    "us": Decimal("0.000001"),
    "µs": Decimal("0.000001"),  # the micro sign
    "μs": Decimal("0.000001"),  # the Greek letter, which Go also accepts
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
}
_NUMBER_AND_UNIT = r"([0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(ns|us|µs|μs|ms|s|m|h)"
_PART = re.compile(_NUMBER_AND_UNIT)
_is_duration = re.compile(f"[+-]?(?:0|(?:{_NUMBER_AND_UNIT})++)").fullmatch
_LONGEST = Decimal(2**63 - 1) / 10**9
"""The largest number of seconds in Go's type: about 292 years."""


def parse_duration(text: str) -> float:
    """Return the seconds in `text`.

    A number always has a unit, except for a plain `0`; a leading sign is allowed. Raises `ValueError` with
    the expected form in its message.
    """
    total = Decimal(0)
    if is_duration := _is_duration(text):
        total = sum((Decimal(number) * _SECONDS[unit] for number, unit in _PART.findall(text)), total)
    if not is_duration or total > _LONGEST:
        raise ValueError('a duration such as "15s", "1m30s" or "500ms" is expected')
    return float(-total if text.startswith("-") else total)


def parse_wait(text: str) -> float:
    """Parse a non-negative duration."""
    seconds = parse_duration(text)
    if seconds < 0:
        raise ValueError("a duration of 0 or more is expected")
    return seconds


def format_duration(seconds: float) -> str:
    """Return `seconds` in the format of `parse_duration`, without parts of 0: `1m30s`, `1h`, `250ms`."""
    sign = "-" if seconds < 0 else ""
    left = round(Decimal(repr(abs(seconds))), 9)
    if left == 0:
        return "0s"
    if left < 1:
        unit = next(unit for unit in ("ms", "us", "ns") if left >= _SECONDS[unit])
        return f"{sign}{_plain(left / _SECONDS[unit])}{unit}"
    hours, minutes = divmod(int(left // 60), 60)
    left %= 60
    parts = (
        f"{hours}h" if hours else "",
        f"{minutes}m" if minutes else "",
        f"{_plain(left)}s" if left else "",
    )
    return sign + "".join(parts)


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
