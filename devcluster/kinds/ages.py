"""How long ago something was, as tables show it: `5s`, `3m20s`, `7h`, `2d3h`."""

from __future__ import annotations

import datetime

__all__ = ["age", "human_duration", "parse_time"]

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR
YEAR = 365 * DAY


def human_duration(seconds: float) -> str:
    """Two or three significant figures; a second in the future counts as now."""
    whole = int(seconds)
    if whole < 0:
        return "<invalid>" if whole < -1 else "0s"
    if whole < 2 * MINUTE:
        return f"{whole}s"
    if whole < 10 * MINUTE:
        return _two(whole, MINUTE, "m", 1, "s")
    if whole < 3 * HOUR:
        return f"{whole // MINUTE}m"
    if whole < 8 * HOUR:
        return _two(whole, HOUR, "h", MINUTE, "m")
    if whole < 2 * DAY:
        return f"{whole // HOUR}h"
    if whole < 8 * DAY:
        return _two(whole, DAY, "d", HOUR, "h")
    if whole < 2 * YEAR:
        return f"{whole // DAY}d"
    if whole < 8 * YEAR:
        return _two(whole, YEAR, "y", DAY, "d")
    return f"{whole // YEAR}y"


def age(timestamp: str | None, now: datetime.datetime) -> str:
    """How long before `now` a Time or MicroTime is; `<unknown>` without one, or when it is none."""
    then = parse_time(timestamp) if timestamp else None
    return human_duration((now - then).total_seconds()) if then else "<unknown>"


def parse_time(timestamp: str) -> datetime.datetime | None:
    """A Time or MicroTime; None when it is neither."""
    try:
        return datetime.datetime.fromisoformat(timestamp)
    except ValueError:
        return None


def _two(seconds: int, unit: int, name: str, part: int, part_name: str) -> str:
    whole, rest = divmod(seconds, unit)
    rest //= part
    return f"{whole}{name}{rest}{part_name}" if rest else f"{whole}{name}"
