"""Each type of fault occurs in a simulation, and the operators recover."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest

from controllers.main import OPERATORS
from manager_tools.simulation.comparing import resource_of
from manager_tools.simulation.faults import _STUCK
from manager_tools.simulation.plan import OF_CERTIFICATES, Fault, Plan, plan_of
from manager_tools.simulation.scene import Weather
from manager_tools.simulation.seeds import Outcome, run, story_of

NAMES = {each.name: each for each in OPERATORS}
MEMCACHED = (NAMES["memcached"],)
STUCK = next(draw for draw in range(9) if random.Random(draw).choice(_STUCK) > 1.0)
"""Value of `draw` for which the disk hangs for more than a second before the power fails."""

SEEN = {
    "power": r"cluster killed: \d+ writes are lost",
    "backup": r"cluster gets a backup of ",
    "some_rights": r"cluster managers have no right to .*",
    "definition": r"cluster the definition of memcacheds.cache.example.com is back",
    "token": r"401 Unauthorized",
    "untrusted": r"certificate signed by unknown authority",
    "secret": r"person (spoils|deletes) .*the Secret simulated-webhook-server-cert",
    "bundle": r"person spoils the CA bundles of ",
    "keepers": r"namespaces/kube-system/secrets\?.* -> 409 AlreadyExists",
    "jump": r"clock jumps by ",
    "server_jump": r"clock jumps by ",
    "drift": r"its clocks begin to drift",
    "torn": r"a watch breaks off within a line",
    "twice": r"and arrives again",
    "behind": r"is read as of version \d+, from a server behind",
    "slow": r"no answer within [123]\d",
    "skips": r"a watch skips to the last of [2-9]\d* states",
}
"""Pattern of a line in the timeline that appears only if the fault has happened, by the fault."""


def with_fault(what: str, *, seed: int) -> Plan:
    """Return the seed's plan with this fault just before every third user action, and no other fault."""
    keeps = what in OF_CERTIFICATES
    plan = replace(plan_of(seed, MEMCACHED, minutes=3), replicas=2, keeps_certificates=keeps)
    wrong = tuple(
        Fault(max(0.5, step.at - 0.2), what, replica=number % 2, seconds=20.0, size=0.8, draw=number)
        for number, step in enumerate(plan.steps[::3])
    )
    return replace(plan, faults=wrong)


def lines(outcome: Outcome) -> list[str]:
    return [f"{who} {what}" for _, who, what in outcome.timeline]


# One fault each of disk, requests, rights and clocks; test_seeds_operators.py has all faults.
QUICK = {"power", "twice", "some_rights", "drift"}


@pytest.mark.parametrize(
    "what", [pytest.param(each, marks=() if each in QUICK else pytest.mark.whole) for each in SEEN]
)
def test_simulated_fault_appears_in_the_timeline_and_the_operator_recovers(what: str):
    for seed in (2, 5, 1, 3, 0, 4):  # the seed with the fewest steps comes first
        plan = with_fault(what, seed=seed)
        outcome = run(plan, MEMCACHED)
        assert not outcome.violations, story_of(outcome)
        if any(re.search(SEEN[what], line) for line in lines(outcome)):
            break
    else:
        pytest.fail(f"no timeline shows the fault {what}")
    without = run(replace(plan, faults=()), MEMCACHED, compare=False)
    assert not any(re.search(SEEN[what], line) for line in lines(without))
    assert outcome.digest != without.digest


def test_later_watch_lag_stays_when_an_earlier_watch_lag_ends():
    weather = Weather()
    first = weather.change(lag=5.0, stale=5.0)
    second = weather.change(lag=20.0)
    assert (weather.lag, weather.stale) == (20.0, 5.0)
    first()
    assert (weather.lag, weather.stale) == (20.0, 0.0)
    second()
    assert weather == Weather()


def test_simulation_reports_no_violation_when_a_manager_told_to_stop_while_frozen_ends_late():
    wrong = (Fault(10.0, "freeze", 0, 40.0), Fault(11.0, "stop", 0, 1.0))
    outcome = run(Plan(1, 1, plan_of(1, MEMCACHED).steps[:1], wrong), MEMCACHED)
    assert "manager-0 ended in order" in lines(outcome)
    assert not outcome.violations, story_of(outcome)


def test_operator_recovers_when_the_server_loses_the_deletion_of_its_crd_in_a_power_failure():
    pet = (NAMES["pet"],)
    wrong = (
        Fault(50.0, "freeze", 0, 40.0),
        Fault(60.0, "power", 0, 1.0, draw=STUCK),
        Fault(61.0, "definition", 0, 1.0),
    )
    steps = tuple(each for each in plan_of(1, pet).steps if each.act == "create" and each.at < 45.0)
    outcome = run(Plan(1, 1, steps, wrong), pet)
    name = resource_of(NAMES["pet"].kind)
    assert f"cluster the deletion of the definition of {name} is lost" in lines(outcome)
    assert not outcome.violations, story_of(outcome)


def test_operator_recovers_when_the_server_loses_a_write_that_damaged_ca_bundles_in_a_power_failure():
    wrong = (Fault(60.0, "power", 0, 1.0, draw=STUCK), Fault(60.5, "bundle", 0, 1.0, draw=3))
    outcome = run(Plan(1, 1, (), wrong, keeps_certificates=True), (NAMES["pet"],))
    said = lines(outcome)
    spoilt = next(at for at, each in enumerate(said) if "spoils the CA bundles" in each)
    assert any(re.fullmatch(r"cluster killed: [1-9] writes are lost", each) for each in said[spoilt:])
    assert not outcome.violations, story_of(outcome)
