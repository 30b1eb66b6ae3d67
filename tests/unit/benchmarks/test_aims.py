"""Aims are decided by the figures, against the better of two settings."""

from __future__ import annotations

import pytest

from benchmarks.report.aims import Aim, aims_of, asides_of
from benchmarks.results import Results
from tests.support.benchmark_results import made_results, made_run

RUN = made_run("operator-manager", "controller-runtime", "controller-runtime-ryw")


def decided(part: str, figure: str, ours: float, *theirs: float) -> list[Aim]:
    peers = {
        "operator_manager": ours,
        **dict(zip(("controller_runtime", "controller_runtime_ryw"), theirs, strict=False)),
    }
    results = made_results(RUN, part, **{peer: {figure: [value]} for peer, value in peers.items()})
    return aims_of(results)


@pytest.mark.parametrize(
    ("ours", "theirs", "reached"),
    [(300.0, (180.0, 200.0), True), (299.0, (180.0, 200.0), False), (290.0, (200.0, 180.0), False)],
)
def test_objects_a_second_are_held_against_the_faster_setting(
    ours: float, theirs: tuple[float], reached: bool
):
    (aim,) = decided("cold", "rate", ours, *theirs)
    assert aim.reached is reached
    assert "against 200" in aim.found


@pytest.mark.parametrize(
    ("part", "figure", "ours", "reached"),
    [
        ("cold", "cpu_ms", 1.4, True),
        ("cold", "cpu_ms", 1.41, False),
        ("memory", "idle.mb", 2.8, True),
        ("memory", "idle.mb", 2.9, False),
        ("memory", "pods-metadata.mb", 0.35, True),
        ("memory", "pods-metadata.mb", 0.36, False),
        ("latency", "at_300.p99_ms", 1.4, True),
        ("latency", "at_300.p99_ms", 1.6, False),
        ("takeover", "sigkill.seconds", 1.4, True),
        ("takeover", "sigterm.seconds", 1.6, False),
    ],
)
def test_costs_are_held_against_the_cheaper_setting(part: str, figure: str, ours: float, reached: bool):
    (aim,) = decided(part, figure, ours, 1.4, 1.5)
    assert aim.reached is reached
    assert aim.verdict == ("reached" if reached else "not reached")


def test_where_one_setting_was_not_measured_the_other_counts():
    (aim,) = decided("memory", "idle.mb", 30.0, 20.0)
    assert aim.reached


def test_one_conflict_in_any_round_is_one_too_many():
    (aim,) = aims_of(made_results(RUN, "cold", operator_manager={"conflicts": [0.0, 0.0, 1.0]}))
    assert not aim.reached
    (aim,) = aims_of(made_results(RUN, "cold", operator_manager={"conflicts": [0.0, 0.0, 0.0]}))
    assert aim.reached


@pytest.mark.parametrize(("many", "reached"), [(2.2, True), (4.0, False)])
def test_a_change_costs_the_same_among_many(many: float, reached: bool):
    found = made_results(RUN, "change", operator_manager={"few.cpu_ms": [2.0], "many.cpu_ms": [many]})
    (aim,) = aims_of(found)
    assert aim.reached is reached


@pytest.mark.parametrize(("watches", "reached"), [(1.0, True), (10.0, False)])
def test_ten_controllers_share_one_watch(watches: float, reached: bool):
    (aim,) = aims_of(made_results(RUN, "ten", operator_manager={"watches": [watches]}))
    assert aim.reached is reached


@pytest.mark.parametrize(("ours", "reached"), [(20.0, True), (160.0, False)])
def test_where_they_fall_behind_ours_has_to_keep_up(ours: float, reached: bool):
    (aim,) = decided("latency", "at_300.behind", ours, 200.0, 180.0)
    assert aim.reached is reached
    assert decided("latency", "at_300.behind", ours, 200.0, 10.0) == []


def test_what_was_measured_on_one_side_only_decides_nothing():
    assert decided("cold", "rate", 300.0) == []
    assert aims_of(Results.begin(RUN, ["cold", "latency", "change"])) == []


def test_other_settings_of_theirs_are_shown_and_decide_nothing():
    run = made_run("operator-manager", "controller-runtime-1")
    results = made_results(
        run, "cold", operator_manager={"rate": [200.0]}, controller_runtime_1={"rate": [50.0]}
    )
    assert aims_of(results) == []
    ((text, found),) = asides_of(results)
    assert "1 worker" in text
    assert found == "200 against 50, 4.00 times"
