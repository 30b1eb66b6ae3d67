"""Calculations on the page about 1,000,000 objects: they match the code."""

from __future__ import annotations

import re

import pytest

from manager.cache import reflector
from manager.election.lease import RENEW_EARLY, LeaseTiming
from manager.shards.coordinator import balance
from tests.support import ROOT

PAGE = (ROOT / "docs" / "sharding.md").read_text()
WHOLE, METADATA, IDLE = (384 - 59.3) / 50_000, (123 - 59.3) / 50_000, 59.3
"""MB."""
EVENT = 865
ROWS = re.findall(r"^\| (\d+), (\d+) \| (.+) \|$", PAGE, re.MULTILINE)


def every() -> float:
    """Seconds between two renewals, on average."""
    return LeaseTiming().retry_period * sum(RENEW_EARLY) / 2


def test_shards_table_has_four_rows():
    assert len(ROWS) == 4


@pytest.mark.parametrize(("replicas", "shards", "rest"), ROWS)
def test_shards_table_row_equals_balance_and_lease_renewals(replicas: str, shards: str, rest: str):
    members = {f"replica-{number}" for number in range(int(replicas))}
    owners = list(balance(int(shards), members, {}).values())
    part = 1_000_000 * max(map(owners.count, members)) // int(shards)
    leases = int(shards) + len(members)
    renewals = leases / every()
    events = renewals * len(members)
    size = events * EVENT
    told = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} KB"
    memory = (part * (WHOLE + METADATA) + IDLE) / 1000
    assert [each.strip() for each in rest.split("|")] == [
        *(f"{part:,}", f"{memory:.1f} GB", f"{leases}", f"{renewals:.0f}", f"{events:,.0f}, {told}")
    ]


def test_shards_page_has_the_periods_and_sizes_of_the_code():
    low, high = reflector.WATCH_SECONDS
    assert f"after {low} to {high} s" in PAGE
    assert f"one request every {(low + high) / 2 / (3 * 3):.0f} s" in PAGE
    assert f"pages of {reflector.PAGE}" in PAGE
    assert f"{62_500 // reflector.PAGE} requests, 625 MB" in PAGE
    assert f"within {reflector.LIST_MORE_WITHIN:.0f} s" in PAGE
    assert f"every {every():.1f} s on average" in PAGE
    assert f"retry periods of {LeaseTiming().retry_period:.0f} s" in PAGE
