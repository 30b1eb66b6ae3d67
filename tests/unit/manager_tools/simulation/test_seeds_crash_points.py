"""Operators recover from a crash, a freeze or another fault at any write or external read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controllers.main import OPERATORS
from manager_tools.simulation.plan import Plan, plan_of
from manager_tools.simulation.seeds import crash_points, run, story_of


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, id=each.name, marks=[] if each.name == "pet" else [pytest.mark.whole])
        for number, each in enumerate(OPERATORS)
    ],
)
@pytest.mark.long
@pytest.mark.timeout(1800)  # Wordpress has about 500 crash points
def test_operator_recovers_at_every_crash_point_of_its_writes_and_external_reads(number: int):
    operators = (OPERATORS[number],)
    plan = plan_of(3, operators, minutes=1)
    for point in crash_points(Plan(plan.seed, 1, plan.steps[:4], ()), operators):
        outcome = run(point, operators)
        assert not outcome.violations, story_of(outcome)


PET = tuple(each for each in OPERATORS if each.name == "pet")


@pytest.mark.parametrize(
    ("look", "end"),
    [(4, ("manager-0.1", "ended in order")), (5, ("manager-0", "ended: the lease was lost"))],
    ids=["restarts before the final checks", "frozen at the end"],
)
def test_simulation_waits_for_a_manager_that_was_frozen_late(look: int, end: tuple[str, str]):
    plan = plan_of(5, PET, minutes=1)
    outcome = run(Plan(plan.seed, 2, plan.steps[:4], (), crash_at=(look, "look")), PET)
    assert not outcome.violations, story_of(outcome)
    assert {("manager-0", "frozen for 90 s"), end} <= {event[1:] for event in outcome.timeline}


RENEWALS = Plan(seed=1, replicas=1, steps=(), faults=(), keeps_certificates=True)
"""Plan without user actions: only the CA and the certificates of webhooks are created and renewed."""


@pytest.mark.parametrize(
    "number",
    [pytest.param(number, marks=() if number % 3 == 1 else pytest.mark.long) for number in range(1, 16)],
)
def test_pet_operator_recovers_from_a_crash_after_any_certificate_renewal_write(number: int):
    outcome = run(replace(RENEWALS, crash_at=(number, "after")), PET, compare=False)
    assert outcome.writes > number
    assert not outcome.violations, story_of(outcome)


@pytest.mark.whole
@pytest.mark.timeout(1800)
def test_pet_operator_recovers_at_every_crash_point_of_a_certificate_renewal():
    for point in crash_points(RENEWALS, PET):
        outcome = run(point, PET, compare=False)
        assert not outcome.violations, story_of(outcome)
