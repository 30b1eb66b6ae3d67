"""Operators recover from all simulated faults.

A test whose first seed is at least SEEDS (an environment variable, 6 by default) has the mark `whole`.
"""

from __future__ import annotations

import os

import pytest

from controllers.main import OPERATORS
from manager_tools.simulation import assert_holds

SEEDS, MORE, AT_ONCE = int(os.environ.get("SEEDS") or 6), 300, 6


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=[pytest.mark.whole] if first >= SEEDS else [])
        for first in range(0, max(SEEDS, MORE), AT_ONCE)
    ],
)
def test_operators_recover_from_the_simulated_faults_of_every_seed(first: int):
    assert_holds(*OPERATORS, seeds=range(first, first + AT_ONCE))
