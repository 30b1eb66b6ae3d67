"""Quantities and times."""

from __future__ import annotations

import pytest

from devcluster.types.times import (
    InvalidQuantity,
    InvalidTime,
    canonical,
    from_seconds,
    normal_micro_time,
    normal_time,
)

FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX = "unable to parse quantity's suffix"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0", "0"),
        ("00", "0"),
        ("0Mi", "0"),
        (".", "0"),
        ("m", "0"),
        ("1", "1"),
        ("+1", "+1"),
        ("1.", "1."),
        ("007", "007"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("1.5", "1500m"),
        ("1000m", "1"),
        ("1000", "1k"),
        ("1500k", "1500k"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1500Mi", "1500Mi"),
        ("0.5Ki", "512"),
        ("1023Ki", "1023Ki"),
        ("1000000Ki", "1000000Ki"),
        ("1e3", "1e3"),
        ("1E3", "1E3"),
        ("1e+3", "1e+3"),
        ("5e-1", "500e-3"),
        ("1e20", "100e18"),
        ("1E", "1E"),
        ("12345678901234567890", "12345678901234567890"),
        ("-1", "-1"),
        ("-0.5", "-500m"),
        ("1e100000001", "1e60"),  # at once
    ],
)
def test_each_quantity_has_the_form_in_which_the_real_server_shows_it(text: str, shown: str):
    assert canonical(text) == shown
    assert canonical(shown) == shown


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", FORMAT),
        ("x", FORMAT),
        ("1_0", FORMAT),
        ("1.2.3", FORMAT),
        ("1e3Ki", FORMAT),
        ("--1", SUFFIX),
        ("1K", SUFFIX),
        ("1kk", SUFFIX),
        ("1mm", SUFFIX),
        ("1ee3", SUFFIX),
        ("1e99999999999", SUFFIX),
    ],
)
def test_canonical_refuses_malformed_quantities_in_the_servers_words(text: str, why: str):
    with pytest.raises(InvalidQuantity) as caught:
        canonical(text)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
        ("2020-01-01T02:00:00+02:00", "2020-01-01T00:00:00Z"),
        ("2020-01-01T02:00:00.9Z", "2020-01-01T02:00:00Z"),
        ("2020-01-01T0:00:00Z", "2020-01-01T00:00:00Z"),
        ("2020-02-29T23:59:59-01:00", "2020-03-01T00:59:59Z"),
        ("0002-01-01T00:00:00Z", "0002-01-01T00:00:00Z"),
    ],
)
def test_times_are_in_utc_and_whole_seconds(text: str, shown: str):
    assert normal_time(text) == shown


AS = 'as "2006-01-02T15:04:05Z07:00": cannot parse'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", f'{AS} "" as "2006"'),
        ("2020-01-01", f'{AS} "" as "T"'),
        ("2020-1-01T00:00:00Z", f'{AS} "1-01T00:00:00Z" as "01"'),
        ("2020-01-01T00:00:00", f'{AS} "" as "Z07:00"'),
        ("2020-01-01T00:00:00Zx", ': extra text: "x"'),
        ("2020-13-01T00:00:00Z", ": month out of range"),
        ("2021-02-29T00:00:00Z", ": day out of range"),
        ("0000-01-01T00:00:00Z", ": day out of range"),
        ("2020-01-01T24:00:00Z", ": hour out of range"),
        ("2020-01-01T00:00:00+25:00", ": time zone offset hour out of range"),
    ],
)
def test_normal_time_refuses_malformed_times_in_gos_words(text: str, why: str):
    with pytest.raises(InvalidTime) as caught:
        normal_time(text)
    assert str(caught.value) == f'parsing time "{text}"{" " if why[0] != ":" else ""}{why}'


@pytest.mark.parametrize("text", ["\uff12020-01-01T00:00:00Z", "2020-01-1\u0661T00:00:00Z"])
def test_digits_of_other_scripts_are_none(text: str):
    with pytest.raises(InvalidTime, match="cannot parse"):
        normal_time(text)


def test_error_of_a_time_escapes_control_characters():
    with pytest.raises(InvalidTime, match=r'parsing time "a\\"b\\\\c\\x0a"'):
        normal_time('a"b\\c\n')


def test_micro_times_have_exactly_six_digits():
    assert normal_micro_time("2020-01-01T02:00:00.123456+02:00") == "2020-01-01T00:00:00.123456Z"
    with pytest.raises(InvalidTime, match='cannot parse "789Z" as "Z07:00"'):
        normal_micro_time("2020-01-01T00:00:00.123456789Z")
    for text in ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00.1Z"):
        with pytest.raises(InvalidTime, match=r'as "\.000000"'):
            normal_micro_time(text)


def test_seconds_since_1970_become_text():
    assert from_seconds(0) == "1970-01-01T00:00:00Z"
    assert from_seconds(1, 60708000, micro=True) == "1970-01-01T00:00:01.060708Z"
    with pytest.raises(InvalidTime):
        from_seconds(2**62)
