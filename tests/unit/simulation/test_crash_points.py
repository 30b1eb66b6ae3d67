"""The operators of this project hold, wherever a process ends: all its writes, of one operator by turns."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from controllers.main import OPERATORS
from manager.simulation.seeds import Plan, crash_points, plan_of, run, told

ROOT = Path(__file__).parents[3]


QUICK = [each.name for each in OPERATORS if each.name != "wordpress"]
"""All points of the other one take minutes."""


def turn() -> str:
    """Another one whenever a source changes, and the same for all who have the same sources."""
    sources = (path for each in ("apis", "controllers", "manager") for path in (ROOT / each).rglob("*.py"))
    return QUICK[zlib.crc32(b"".join(path.read_bytes() for path in sorted(sources))) % len(QUICK)]


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, id=each.name, marks=[] if each.name == turn() else [pytest.mark.whole])
        for number, each in enumerate(OPERATORS)
    ],
)
@pytest.mark.timeout(1800)  # all points of Wordpress are half a thousand runs
def test_a_death_before_or_after_any_write_is_made_good(number: int):
    operators = (OPERATORS[number],)
    plan = plan_of(3, operators, minutes=1)
    for point in crash_points(Plan(plan.seed, 1, plan.steps[:4], ()), operators):
        outcome = run(point, operators)
        assert not outcome.violations, told(outcome)
