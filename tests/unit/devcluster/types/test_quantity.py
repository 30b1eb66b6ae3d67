from __future__ import annotations

import pytest

from devcluster.types.quantity import InvalidQuantity, canonical

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
def test_what_is_no_quantity_is_refused_in_the_servers_words(text: str, why: str):
    with pytest.raises(InvalidQuantity) as caught:
        canonical(text)
    assert str(caught.value) == why


def test_a_huge_exponent_costs_nothing():
    assert canonical("1e100000001") == "1e60"
