"""From the samples of several rounds to medians and their spread."""

from __future__ import annotations

import pytest

from benchmarks.results import Results
from benchmarks.summary import Summary, failure, quantile, requests, summarize
from tests.support.benchmark_results import made_results, made_run


def test_a_figure_is_the_median_of_the_rounds_with_the_smallest_and_the_largest():
    results = made_results(made_run("a"), "cold", a={"rate": [210.0, 190.0, 250.0]})
    assert summarize(results, "cold", "a", "rate") == Summary(210.0, 190.0, 250.0, 3)


def test_rounds_without_the_figure_do_not_count():
    results = made_results(made_run("a"), "cold", a={"rate": [210.0, 190.0], "cpu_ms": [1.0]})
    assert summarize(results, "cold", "a", "cpu_ms") == Summary(1.0, 1.0, 1.0, 1)
    assert summarize(results, "cold", "a", "writes") is None
    assert summarize(results, "latency", "a", "rate") is None


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [(1, 0.99, 1), (100, 0.5, 50), (100, 0.99, 99), (101, 0.99, 100), (3, 0, 1)],
)
def test_a_quantile_is_a_value_that_was_measured(count: int, share: float, expected: int):
    assert quantile(range(1, count + 1), share) == expected


def test_a_request_that_a_round_did_not_have_counts_as_none():
    results = Results.begin(made_run("a"), ["cold"])
    for number, count in enumerate([4, 6, 0], 1):
        results.sample("cold", "a", number).requests = {"GET pods 200": 1} | (
            {"POST deployments 409": count} if count else {}
        )
    assert requests(results, "cold", "a") == {"GET pods 200": 1, "POST deployments 409": 4}


def test_a_failure_of_a_group_is_not_one_of_the_part():
    results = Results.begin(made_run("a"), ["memory"])
    results.sample("memory", "a", 2).failed["pods"] = "killed"
    assert failure(results, "memory", "a", "pods") == "killed"
    assert failure(results, "memory", "a", "idle") is None
    results.sample("memory", "a", 2).failed[""] = "never started"
    assert failure(results, "memory", "a", "idle") == "never started"
