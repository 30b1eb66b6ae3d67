"""The report: medians and spread, and aims that the figures decide."""

from __future__ import annotations

import pytest

from benchmarks.report.aims import aims_of
from benchmarks.summary import Summary, summarize
from tests.support.benchmark_results import made_results, made_run


def test_summarize_skips_slow_rounds_except_for_figures_that_speed_does_not_affect():
    figures = {
        "at_50.p99_ms": [9.0, 20.0, 10.0],
        "at_50.behind": [0.0, 7.0, 0.0],
        "at_50.pace_ms": [1.0, 1.6, 1.1],
    }
    results = made_results(made_run("a"), "latency", a=figures)
    assert summarize(results, "latency", "a", "at_50.p99_ms") == Summary(9.5, 9.0, 10.0, 2)
    assert summarize(results, "latency", "a", "at_50.behind") == Summary(0.0, 0.0, 0.0, 2)
    figures = {"conflicts": [0.0, 7.0, 0.0], "pace_ms": [1.0, 1.6, 1.1]}
    results = made_results(made_run("a"), "cold", a=figures)
    assert summarize(results, "cold", "a", "conflicts") == Summary(0.0, 0.0, 7.0, 3)


RUN = made_run("operator-manager", "controller-runtime", "controller-runtime-ryw")


@pytest.mark.parametrize(
    ("part", "figure", "ours", "theirs", "verdict"),
    [
        ("cold", "rate", [200.0], ([180.0], [200.0]), "reached"),
        ("cold", "rate", [199.0], ([180.0], [200.0]), "not reached"),
        ("cold", "cpu_ms", [1.75], ([1.4], [1.5]), "reached"),
        ("cold", "cpu_ms", [1.76], ([1.4], [1.5]), "not reached"),
        ("cold", "conflicts", [0.0, 0.0, 1.0], (), "not reached"),
    ],
)
def test_aim_compares_with_the_better_setting_of_the_peer(
    part: str, figure: str, ours: list[float], theirs: tuple[list[float], ...], verdict: str
):
    settings = dict(zip(("controller_runtime", "controller_runtime_ryw"), theirs, strict=False))
    figures = {peer: {figure: values} for peer, values in {"operator_manager": ours, **settings}.items()}
    (aim,) = aims_of(made_results(RUN, part, **figures))
    assert aim.verdict == verdict


def test_aim_is_uncertain_when_the_pace_of_the_machine_decides_it():
    ours, theirs = {"cpu_ms": [1.2], "pace_ms": [1.0]}, {"cpu_ms": [1.1], "pace_ms": [2.0]}
    (aim,) = aims_of(made_results(RUN, "cold", operator_manager=ours, controller_runtime=theirs))
    assert aim.verdict == "uncertain"
