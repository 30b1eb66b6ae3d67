from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager_kinds.quantity import parse_quantity


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", 0),
        ("10", 10),
        ("1Ki", 1024),
        ("10Gi", 10 * 2**30),
        ("1k", 1000),
        ("2M", 2_000_000),
        ("1E", 10**18),
        ("1Ei", 2**60),
        ("1e3", 1000),
        ("1E3", 1000),
        ("15e-1", Fraction(3, 2)),
        ("500m", Fraction(1, 2)),
        ("1u", Fraction(1, 10**6)),
        ("1n", Fraction(1, 10**9)),
        (".5Gi", 2**29),
        ("5.", 5),
        ("+1", 1),
        ("-1Gi", -(2**30)),
    ],
)
def test_parse_quantity_returns_the_exact_amount(text: str, amount: Fraction):
    assert parse_quantity(text) == amount


@pytest.mark.parametrize(
    "text", ["", "Gi", "1GiB", "1 Gi", "ten", "1K", "--1", "1.2.3", "0x10", "1e", "1e999"]
)
def test_parse_quantity_refuses_text_that_is_not_a_quantity(text: str):
    with pytest.raises(ValueError, match="not a quantity"):
        parse_quantity(text)


@given(st.integers(0, 2**63))
def test_parse_quantity_returns_equal_amounts_for_equal_values_in_different_units(amount: int):
    assert parse_quantity(f"{amount}Gi") == parse_quantity(f"{amount * 1024}Mi")
    assert parse_quantity(f"{amount}Gi") < parse_quantity(f"{amount}.000000001Gi")
