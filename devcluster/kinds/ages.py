"""Ages as tables show them: `5s`, `3m20s`, `7h`, `2d3h`."""

from __future__ import annotations

import datetime
import re

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR
YEAR = 365 * DAY
NAMES = {1: "s", MINUTE: "m", HOUR: "h", DAY: "d", YEAR: "y"}
STEPS = (
    (2 * MINUTE, 1, 0),
    (10 * MINUTE, MINUTE, 1),
    (3 * HOUR, MINUTE, 0),
    (8 * HOUR, HOUR, MINUTE),
    (2 * DAY, HOUR, 0),
    (8 * DAY, DAY, HOUR),
    (2 * YEAR, DAY, 0),
    (8 * YEAR, YEAR, DAY),
)
"""For durations below the first value: the unit, and the smaller unit next to it, or 0 for none."""
_TIME = re.compile(r"[0-9-]{10}T[0-9:]{8}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})")
"""The form of RFC 3339, which is stricter than `fromisoformat`."""


def human_duration(seconds: float) -> str:
    """Format a duration in one or two units; -1 gives `0s`, a smaller one `<invalid>`."""
    whole = int(seconds)
    if whole < 0:
        return "<invalid>" if whole < -1 else "0s"
    for below, unit, part in STEPS:
        if whole < below:
            return _shown(whole, unit, part)
    return _shown(whole, YEAR, 0)


def age(timestamp: str | None, now: datetime.datetime) -> str:
    """Return the age of a Time or MicroTime at `now`, `<invalid>` for other texts, `<unknown>` for None."""
    if not timestamp:
        return "<unknown>"
    then = parse_time(timestamp)
    return human_duration((now - then).total_seconds()) if then else "<invalid>"


def parse_time(timestamp: str) -> datetime.datetime | None:
    """Parse a Time or MicroTime; return None for any other text."""
    if _TIME.fullmatch(timestamp) is None:
        return None
    try:
        return datetime.datetime.fromisoformat(timestamp)
    except ValueError:
        return None


def _shown(seconds: int, unit: int, part: int) -> str:
    whole, rest = divmod(seconds, unit)
    rest = rest // part if part else 0
    return f"{whole}{NAMES[unit]}{rest}{NAMES[part]}" if rest else f"{whole}{NAMES[unit]}"
