from __future__ import annotations

import pytest

from controllers.petstore.birthday import InvalidBirthday, day_of, day_of_moment


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2021-04-01T00:00:00Z", "2021-04-01"),
        ("2021-04-01t00:00:00z", "2021-04-01"),
        ("2021-03-31T23:30:00-01:00", "2021-04-01"),
        ("2021-04-01T00:30:00+01:00", "2021-03-31"),
        ("2021-04-01T00:00:00.123456789123Z", "2021-04-01"),
        ("2021-04-01T00:00:00,5Z", "2021-04-01"),
        ("2016-12-31T23:59:60Z", "2016-12-31"),
        ("2016-12-31T22:59:60-01:00", "2016-12-31"),
        ("2021-04-01T00:00:00+99:99", "2021-03-27"),
        ("2020-02-29T12:00:00Z", "2020-02-29"),
        ("0001-01-01T00:00:00Z", "0001-01-01"),
        ("9999-12-31T23:59:59Z", "9999-12-31"),
        # The local day is beyond the calendar, but the UTC day is not.
        ("9999-12-31T23:59:59+00:01", "9999-12-31"),
    ],
)
def test_day_of_moment_returns_the_utc_day_of_the_timestamp(text: str, day: str):
    assert day_of_moment(text).isoformat() == day


@pytest.mark.parametrize(
    "text",
    [
        *("", "2021-04-01", "2021-04-01T00:00:00", "2021-04-01T00:00:00Z ", "2021-04-01T00:00:00Z\n"),
        *("٢٠٢١-04-01T00:00:00Z", "2021-02-29T00:00:00Z", "2021-04-01T24:00:00Z", "2021-04-01T00:00:61Z"),
        *("0000-06-01T00:00:00Z", "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01"),
        "2021-04-01T00:00:00." + "9" * 100_000,
    ],
)
def test_day_of_moment_refuses_a_malformed_timestamp_with_a_short_message(text: str):
    with pytest.raises(InvalidBirthday) as refused:
        day_of_moment(text)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    "text",
    ["20210401", "2021-W13-4", "2021-04-01\n", "٢٠٢١-04-01", "0000-06-01", "2021-02-29", "9" * 100_000],
)
def test_birthday_parser_refuses_a_malformed_date_with_a_short_message(text: str):
    with pytest.raises(
        InvalidBirthday, match=r"is not a day of the years 1 to 9999, as 2021-04-01 is"
    ) as refused:
        day_of(text)
    assert len(str(refused.value)) < 200
