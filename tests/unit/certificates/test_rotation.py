from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from manager.certificates.rotation import Lifetimes

DAY = timedelta(days=1)


def test_lifetimes_default_to_a_year_for_authority_and_90_days_for_serving():
    lifetimes = Lifetimes()
    assert lifetimes.authority == 365 * DAY
    assert lifetimes.serving == 90 * DAY


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"serving": 122 * DAY}, "a third of its authority's time"),
        ({"retire": 122 * DAY}, "within a third of its life"),
        ({"retire": timedelta(seconds=15)}, "later than a new one takes to settle"),
    ],
)
def test_lifetimes_refuse_times_with_which_a_certificate_would_end_too_early(
    changed: dict[str, timedelta], complaint: str
):
    with pytest.raises(ValueError, match=complaint):
        replace(Lifetimes(), **changed)
