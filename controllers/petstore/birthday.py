"""Parsing and validation of birthdays, in the form of a day or a date-time."""

from __future__ import annotations

import datetime
import re

from manager.util import clock
from manager.webhook import Refused, invalid

FIRST_BIRTHDAY = datetime.date(1900, 1, 1)
"""The first valid birthday."""

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
# Like the API server's, this pattern accepts more than RFC 3339: any character may precede the fraction, and
# an offset may have any two digits. Leap seconds are accepted, too, although the API server refuses them.
_DATE_TIME = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"t(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})(?:.[0-9]+)?"
    r"(?:z|(?P<sign>[+-])(?P<hours>[0-9]{2}):(?P<minutes>[0-9]{2}))",
    re.IGNORECASE | re.ASCII | re.DOTALL,
)
_LAST_SECOND = 59
_LEAP_SECOND = 60
_SHOWN = 64
"""The maximum number of characters that a message quotes: unchecked objects have texts of any length."""


class InvalidBirthday(ValueError):
    """The text is not an existing day that the store can represent."""


def day_of(text: str) -> datetime.date:
    """Parse a day such as `2021-04-01`.

    Raises:
        InvalidBirthday: the text is not a day of the years 1 to 9999.
    """
    # Python also parses 20210401 and week dates, which the API server refuses.
    if _DAY.fullmatch(text):
        try:
            return datetime.date.fromisoformat(text)
        except ValueError:
            pass
    raise InvalidBirthday(f"{_shown(text)} is not a day of the years 1 to 9999, as 2021-04-01 is")


def day_of_moment(text: str) -> datetime.date:
    """Return the UTC day of a date-time, such as 2021-04-01 for `2021-03-31T23:30:00-01:00`.

    Raises:
        InvalidBirthday: the text is not a date-time of the years 1 to 9999 in UTC.
    """
    matched = _DATE_TIME.fullmatch(text)
    if matched is None:
        raise InvalidBirthday(f"{_shown(text)} is not a date and a time as in 2021-04-01T00:00:00Z")
    year, month, day, hour, minute, second = map(
        int, matched.group("year", "month", "day", "hour", "minute", "second")
    )
    # The day stays the same: a leap second belongs to the day of the second before.
    second = _LAST_SECOND if second == _LEAP_SECOND else second
    try:
        moment = datetime.datetime(year, month, day, hour, minute, second)  # noqa: DTZ001 - the offset follows
        if matched["sign"]:
            offset = datetime.timedelta(hours=int(matched["hours"]), minutes=int(matched["minutes"]))
            moment += -offset if matched["sign"] == "+" else offset
    except (ValueError, OverflowError):
        raise InvalidBirthday(f"{_shown(text)} is not a moment of the years 1 to 9999 in UTC") from None
    return moment.date()


def check_birthday(birthday: str) -> None:
    """Raise Refused for an impossible day, a day after today (UTC), or a day before the first valid one.

    The schemas allow impossible days: the year 0 and, in v1alpha1, moments after the year 9999 in UTC.
    """
    try:
        day = day_of(birthday)
    except InvalidBirthday:
        # The value may be very long: any number of digits may follow the seconds.
        raise Refused(invalid("spec.birthday", birthday[:_SHOWN], "must be a day of the calendar")) from None
    today = clock.now().date()
    if day > today:
        raise Refused(invalid("spec.birthday", birthday, f"must not be in the future (it is {today} in UTC)"))
    if day < FIRST_BIRTHDAY:
        raise Refused(invalid("spec.birthday", birthday, f"must not be before {FIRST_BIRTHDAY}"))


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
