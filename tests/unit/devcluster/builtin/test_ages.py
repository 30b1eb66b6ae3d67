"""Ages as kubectl's tables have them."""

from __future__ import annotations

import datetime

import pytest

from devcluster.kinds.ages import age, human_duration

HOUR, DAY = 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 60, "3h1m"),
        (8 * HOUR, "8h"),
        (47 * HOUR, "47h"),
        (48 * HOUR, "2d"),
        (49 * HOUR, "2d1h"),
        (8 * DAY + HOUR, "8d"),
        (729 * DAY, "729d"),
        (730 * DAY, "2y"),
        (731 * DAY, "2y1d"),
        (8 * 365 * DAY + DAY, "8y"),
    ],
)
def test_duration(seconds: int, shown: str) -> None:
    assert human_duration(seconds) == shown


def test_age_of_times_of_both_forms() -> None:
    now = datetime.datetime(2026, 1, 31, 12, 0, 0, tzinfo=datetime.UTC)
    assert age("2026-01-31T11:59:00Z", now) == "60s"
    assert age("2026-01-31T11:59:59.500000Z", now) == "0s"
    assert age(None, now) == "<unknown>"
    assert age("soon", now) == "<unknown>"
