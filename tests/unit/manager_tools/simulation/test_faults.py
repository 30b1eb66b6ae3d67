"""Each type of fault occurs in a simulation, and the operators recover."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from controllers.main import OPERATORS
from devcluster.storage import Store
from manager.cache.sink import Sink
from manager.kube.credentials import Credentials, TokenFile
from manager_tools.simulation.comparing import resource_of
from manager_tools.simulation.faults import _STUCK
from manager_tools.simulation.plan import OF_CERTIFICATES, Fault, Plan, plan_of
from manager_tools.simulation.scene import Weather
from manager_tools.simulation.seeds import Outcome, run, story_of

NAMES = {each.name: each for each in OPERATORS}
MEMCACHED = (NAMES["memcached"],)
STUCK = next(draw for draw in range(9) if random.Random(draw).choice(_STUCK) > 1.0)
"""The draw of a power failure that comes seconds after the disk got stuck."""

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
"""What the time line has if, and only if, a fault has happened."""


def with_fault(what: str, *, seed: int, seconds: float = 20.0, operators: tuple = MEMCACHED) -> Plan:
    """Plan a seed in which this fault alone happens again and again during users' actions."""
    keeps = what in OF_CERTIFICATES
    plan = replace(plan_of(seed, operators, minutes=3), replicas=2, keeps_certificates=keeps)
    wrong = tuple(
        Fault(max(0.5, step.at - 0.2), what, replica=number % 2, seconds=seconds, size=0.8, draw=number)
        for number, step in enumerate(plan.steps[::3])
    )
    return replace(plan, faults=wrong)


def lines(outcome: Outcome) -> list[str]:
    return [f"{who} {what}" for _, who, what in outcome.timeline]


# One fault each of disk, requests, rights and clocks; the operators' seeds have all faults.
QUICK = {"power", "twice", "some_rights", "drift"}


@pytest.mark.parametrize(
    "what", [pytest.param(each, marks=() if each in QUICK else pytest.mark.whole) for each in SEEN]
)
def test_simulated_fault_appears_in_the_timeline_and_operators_recover(what: str):
    for seed in (2, 5, 1, 3, 0, 4):  # the seed with the fewest steps first
        plan = with_fault(what, seed=seed)
        outcome = run(plan, MEMCACHED)
        assert not outcome.violations, story_of(outcome)
        if any(re.search(SEEN[what], line) for line in lines(outcome)):
            break
    else:
        pytest.fail("it does not happen")
    without = run(replace(plan, faults=()), MEMCACHED, compare=False)
    assert not any(re.search(SEEN[what], line) for line in lines(without))
    assert outcome.digest != without.digest


def test_weather_keeps_the_second_change_when_the_first_change_ends():
    weather = Weather()
    first = weather.change(lag=5.0, stale=5.0)
    second = weather.change(lag=20.0)
    assert (weather.lag, weather.stale) == (20.0, 5.0)
    first()
    assert (weather.lag, weather.stale) == (20.0, 0.0)
    second()
    assert weather == Weather()


def with_handovers(plan: Plan) -> Plan:
    """End a replica after each fault has begun; another acquires the lease while the disk is stuck."""
    pairs = (
        (replace(each, draw=STUCK), replace(each, at=each.at + 0.3, what="stop", seconds=1.0))
        for each in plan.faults
    )
    return replace(plan, faults=tuple(fault for pair in pairs for fault in pair))


def found(what: str, *, at_handovers: bool) -> bool:
    """Return whether a seed with only that fault finds a violation."""
    plans = (with_fault(what, seed=seed, seconds=3.0) for seed in range(12, 24))
    return any(
        run(with_handovers(plan) if at_handovers else plan, MEMCACHED, compare=False).violations
        for plan in plans
    )


async def at_once(*_: object) -> None:
    return None


def answers_before_it_is_on_the_disk(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Store, "durable", at_once)


def reuses_a_rejected_token(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TokenFile, "LIFETIME", math.inf)
    renewed = Credentials._renewed
    patch.setattr(Credentials, "_renewed", lambda self, _: renewed(self, None))


def forgets_changes_of_what_was_never_added(patch: pytest.MonkeyPatch) -> None:
    original = Sink.event

    def event(self: Sink, kind: str, raw: Any) -> None:
        if kind != "MODIFIED" or self.store.records.get(self.decoder.look(raw).key) is not None:
            original(self, kind, raw)

    patch.setattr(Sink, "event", event)


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "power": answers_before_it_is_on_the_disk,
    "token": reuses_a_rejected_token,
    "skips": forgets_changes_of_what_was_never_added,
}


@pytest.mark.whole
@pytest.mark.parametrize("what", PLANTED)
def test_fault_type_finds_a_planted_bug_that_cut_connections_do_not_find(
    what: str, monkeypatch: pytest.MonkeyPatch
):
    PLANTED[what](monkeypatch)
    # A lost write does harm when it is the acquisition of a lease.
    at_handovers = what == "power"
    assert not found("cut", at_handovers=at_handovers)
    assert found(what, at_handovers=at_handovers)


def test_simulation_accepts_the_late_stop_of_a_frozen_process():
    wrong = (Fault(10.0, "freeze", 0, 40.0), Fault(11.0, "stop", 0, 1.0))
    outcome = run(Plan(1, 1, plan_of(1, MEMCACHED).steps[:1], wrong), MEMCACHED)
    assert "manager-0 ended in order" in lines(outcome)
    assert not outcome.violations, story_of(outcome)


def test_power_fault_restores_a_crd_whose_deletion_was_lost():
    pet = (NAMES["pet"],)
    wrong = (
        Fault(50.0, "freeze", 0, 40.0),
        Fault(60.0, "power", 0, 1.0, draw=STUCK),
        Fault(61.0, "definition", 0, 1.0),
    )
    steps = tuple(each for each in plan_of(1, pet).steps if each.act == "create" and each.at < 45.0)
    outcome = run(Plan(1, 1, steps, wrong), pet)
    name = resource_of(NAMES["pet"].kind)
    assert f"cluster the definition of {name} stays: that it was deleted is lost" in lines(outcome)
    assert not outcome.violations, story_of(outcome)


def test_power_fault_repairs_a_corrupted_ca_bundle_when_that_write_is_lost():
    wrong = (Fault(60.0, "power", 0, 1.0, draw=STUCK), Fault(60.5, "bundle", 0, 1.0, draw=3))
    outcome = run(Plan(1, 1, (), wrong, keeps_certificates=True), (NAMES["pet"],))
    said = lines(outcome)
    spoilt = next(at for at, each in enumerate(said) if "spoils the CA bundles" in each)
    assert any(re.fullmatch(r"cluster killed: [1-9] writes are lost", each) for each in said[spoilt:])
    assert not outcome.violations, story_of(outcome)
