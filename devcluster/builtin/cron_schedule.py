"""Schedules of CronJobs, in the grammar of the real controller's library (robfig/cron)."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
from collections.abc import Iterator
from zoneinfo import ZoneInfo

from devcluster.schema.cel.values import to_duration

__all__ = ["InvalidSchedule", "Schedule", "parse_schedule", "zone_of"]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMES = {name: str(number) for number, name in enumerate(_MONTHS, 1)} | {
    name: str(number) for number, name in enumerate(_WEEKDAYS)
}
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
"""Of minutes, hours, days of the month, months and days of the week."""
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_HORIZON = datetime.timedelta(days=5 * 366)
"""How far ahead the next time is looked for: 30 February never comes."""
_DAY = datetime.timedelta(days=1)


class InvalidSchedule(ValueError):
    """Not a schedule; the text is the library's."""


@dataclasses.dataclass(frozen=True, slots=True)
class Schedule:
    """Times at which a CronJob starts a Job."""

    fields: tuple[frozenset[int], ...] = ()
    any_day: bool = False
    """Whether one of the two fields of days is `*`; otherwise a day of either is one."""
    every: datetime.timedelta | None = None
    """The distance of `@every`, from the last time."""

    def next_after(self, moment: datetime.datetime, zone: datetime.tzinfo) -> datetime.datetime | None:
        """Return the first time after `moment`, in UTC; None if there is none for five years."""
        if self.every is not None:
            return moment.replace(microsecond=0) + self.every
        day = moment.astimezone(zone).date()
        while day < (moment + _HORIZON).date():
            for found in self._times_of(day, zone):
                if found > moment:
                    return found
            day += _DAY
        return None

    def last_between(
        self, start: datetime.datetime, end: datetime.datetime, zone: datetime.tzinfo
    ) -> datetime.datetime | None:
        """Return the last time after `start` that is not after `end`, in UTC, or None."""
        if self.every is not None:
            count = (end - start) // self.every
            return start.replace(microsecond=0) + count * self.every if count > 0 else None
        day = end.astimezone(zone).date()
        while day >= start.astimezone(zone).date():
            times = [found for found in self._times_of(day, zone) if start < found <= end]
            if times:
                return times[-1]
            day -= _DAY
        return None

    def _times_of(self, day: datetime.date, zone: datetime.tzinfo) -> Iterator[datetime.datetime]:
        minutes, hours, days, months, weekdays = self.fields
        is_day, is_weekday = day.day in days, day.isoweekday() % 7 in weekdays
        if day.month not in months or not (is_day and is_weekday if self.any_day else is_day or is_weekday):
            return
        for hour in sorted(hours):
            for minute in sorted(minutes):
                local = datetime.datetime.combine(day, datetime.time(hour, minute), zone)
                found = local.astimezone(datetime.UTC)
                if found.astimezone(zone).hour == hour:  # else the clocks leave this time out
                    yield found


@functools.lru_cache(maxsize=256)
def parse_schedule(text: str) -> Schedule:
    """Parse `*/5 * * * mon-fri`, `@daily` or `@every 90s`.

    Raises:
        InvalidSchedule: the text is no schedule.
    """
    if text.startswith("@"):
        if text.startswith("@every "):
            distance = text.removeprefix("@every ")
            duration = to_duration(distance)
            if duration is None:
                raise InvalidSchedule(f'failed to parse duration {text}: time: invalid duration "{distance}"')
            seconds = max(duration.nanoseconds // 10**9, 1)
            return Schedule(every=datetime.timedelta(seconds=seconds))
        if text not in _DESCRIPTORS:
            raise InvalidSchedule(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    parts = text.split()
    if len(parts) != len(_BOUNDS):
        raise InvalidSchedule(f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]")
    parsed = [_field(part, *bounds) for part, bounds in zip(parts, _BOUNDS, strict=True)]
    return Schedule(tuple(values for values, _ in parsed), any_day=parsed[2][1] or parsed[4][1])


def zone_of(name: str | None) -> datetime.tzinfo:
    """Return the time zone of that name, UTC without one.

    Raises:
        ValueError: the machine knows no such zone.
    """
    try:
        return ZoneInfo(name) if name else datetime.UTC
    except (KeyError, OSError) as error:
        raise ValueError(f"unknown time zone {name}") from error


def _field(text: str, lowest: int, highest: int) -> tuple[frozenset[int], bool]:
    """Return the numbers of a field, and whether it is `*`."""
    numbers: set[int] = set()
    is_star = False
    for part in filter(None, text.split(",")):
        found, star = _range(part, lowest, highest)
        numbers.update(found)
        is_star = is_star or star
    return frozenset(numbers), is_star


def _range(text: str, lowest: int, highest: int) -> tuple[range, bool]:
    span, *steps = text.split("/")
    low, *high = span.split("-")
    is_star = low in {"*", "?"}
    if is_star:
        start, end = lowest, highest
    else:
        start = _number(low)
        end = _number(high[0]) if high else start
        if len(high) > 1:
            raise InvalidSchedule(f"too many hyphens: {text}")
    step = 1
    if steps:
        step = _number(steps[0])
        if len(steps) > 1:
            raise InvalidSchedule(f"too many slashes: {text}")
        if not high and not is_star:
            end = highest
    if start < lowest:
        raise InvalidSchedule(f"beginning of range ({start}) below minimum ({lowest}): {text}")
    if end > highest:
        raise InvalidSchedule(f"end of range ({end}) above maximum ({highest}): {text}")
    if start > end:
        raise InvalidSchedule(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise InvalidSchedule(f"step of range should be a positive number: {text}")
    return range(start, end + 1, step), is_star and step == 1


def _number(text: str) -> int:
    text = _NAMES.get(text.lower(), text)
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII) is None:
        raise InvalidSchedule(
            f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
        )
    if text.startswith("-"):
        raise InvalidSchedule(f"negative number ({text}) not allowed: {text}")
    return int(text)
