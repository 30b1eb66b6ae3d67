"""Quantities and times that no recording of a real server contains."""

from __future__ import annotations

import pytest

from devcluster.types.times import InvalidQuantity, InvalidTime, canonical, from_seconds, normal_time


def test_quantity_exponent_of_9_digits_is_capped_and_one_of_11_digits_is_refused():
    assert canonical("1e100000001") == "1e60"
    with pytest.raises(InvalidQuantity, match="unable to parse quantity's suffix"):
        canonical("1e99999999999")


def test_normal_time_refuses_year_0():
    with pytest.raises(InvalidTime, match="day out of range"):
        normal_time("0000-01-01T00:00:00Z")


def test_time_from_seconds_formats_seconds_since_1970():
    assert from_seconds(0) == "1970-01-01T00:00:00Z"
    assert from_seconds(1, 60708000, micro=True) == "1970-01-01T00:00:01.060708Z"
    with pytest.raises(InvalidTime):
        from_seconds(2**62)


def test_normal_time_accepts_time_zones_of_up_to_24_hours_and_60_minutes():
    assert normal_time("2026-01-02T00:00:00+24:60") == "2025-12-31T23:00:00Z"
    for zone, unit in (("+25:00", "hour"), ("+00:61", "minute"), ("-25:99", "minute")):
        with pytest.raises(InvalidTime, match=f"time zone offset {unit} out of range"):
            normal_time(f"2026-01-02T00:00:00{zone}")
