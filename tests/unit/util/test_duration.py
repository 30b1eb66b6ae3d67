from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.util.duration import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1m30s", 90),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1.s", 1),
        ("100us", 0.0001),
        ("1µs", 0.000001),
        ("1μs", 0.000001),
        ("0", 0),
        ("-2m", -120),
        ("+3s", 3),
        ("1s1s", 2),
    ],
)
def test_parse_duration_accepts_the_same_text_as_go(text: str, seconds: float):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("", "15", "s", "1 s", " 1s", "1d", "1s2", "--1s", "-", ".s", "1e3s", "1..s", "3000000h", "\u0661s"),
        "9" * 1_000_000,
    ],
    ids=lambda text: text[:9],
)
def test_parse_duration_refuses_text_that_go_refuses_and_shows_an_example(text: str):
    with pytest.raises(ValueError, match='a duration such as "15s"'):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (90.0, "1m30s"),
        (3601.5, "1h1.5s"),
        (0.25, "250ms"),
        (0.0000015, "1.5us"),
        (0.000000001, "1ns"),
        (-90.0, "-1m30s"),
    ],
)
def test_format_duration_omits_zero_units(seconds: float, text: str):
    assert format_duration(seconds) == text


@given(st.integers(min_value=-(10**15), max_value=10**15))
def test_format_duration_output_parses_back_to_the_same_duration(nanoseconds: int):
    seconds = nanoseconds / 10**9
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, abs=1e-9)
