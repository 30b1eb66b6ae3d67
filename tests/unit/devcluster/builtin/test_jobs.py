from __future__ import annotations

import datetime
from contextlib import suppress
from zoneinfo import ZoneInfo

import pytest

from devcluster.builtin.jobs import InvalidSchedule, parse_schedule

UTC = datetime.UTC


def at(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("* * * * *", "2026-01-31T23:59:30", "2026-02-01T00:00:00"),
        ("*/15 3 * * *", "2026-01-31T03:30:00", "2026-01-31T03:45:00"),
        ("5/20 * * * *", "2026-01-31T03:06:00", "2026-01-31T03:25:00"),
        ("0 0 1 jan-mar ?", "2026-01-31T00:00:00", "2026-02-01T00:00:00"),
        ("0 12 29 2 *", "2026-03-01T00:00:00", "2028-02-29T12:00:00"),
        ("0 0 13 * fri", "2026-02-01T00:00:00", "2026-02-06T00:00:00"),  # a day that matches either field
        ("0 0 */2 * mon", "2026-02-01T00:00:00", "2026-02-02T00:00:00"),  # */2 is not the same as *
        ("@weekly", "2026-01-31T00:00:00", "2026-02-01T00:00:00"),
        ("@every 90s", "2026-01-31T00:00:30.5", "2026-01-31T00:02:00"),
    ],
)
def test_cron_schedule_returns_the_next_and_the_last_matching_time(schedule: str, after: str, expected: str):
    parsed = parse_schedule(schedule)
    assert parsed.next_after(at(after), UTC) == at(expected)
    if parsed.every is None:
        assert parsed.last_between(at(after), at(expected), UTC) == at(expected)
        before = at(expected) - datetime.timedelta(seconds=1)
        assert parsed.last_between(at(after), before, UTC) is None


def test_cron_schedule_returns_none_when_no_date_matches():
    assert parse_schedule("0 0 30 2 *").next_after(at("2026-01-01T00:00:00"), UTC) is None


def test_cron_schedule_uses_its_time_zone_and_skips_nonexistent_local_times():
    zone = ZoneInfo("Europe/Berlin")
    daily = parse_schedule("30 2 * * *")
    assert daily.next_after(at("2026-03-28T02:00:00"), zone) == at("2026-03-30T00:30:00")
    assert daily.next_after(at("2026-01-01T00:00:00"), zone) == at("2026-01-01T01:30:00")


def test_cron_schedule_finds_the_last_of_many_missed_times_quickly():
    start, end = at("2020-01-01T00:00:00"), at("2026-01-31T12:34:56")
    assert parse_schedule("* * * * *").last_between(start, end, UTC) == at("2026-01-31T12:34:00")
    assert parse_schedule("@every 7s").last_between(start, end, UTC) is not None


@pytest.mark.parametrize(
    "text", ["1" * 400 + " * * * *", "*/" + "9" * 30 + " * * * *", ",,,, * * * *", "@every"]
)
def test_parse_schedule_of_malformed_text_raises_no_error_except_invalid_schedule(text: str):
    with suppress(InvalidSchedule):
        parse_schedule(text)
