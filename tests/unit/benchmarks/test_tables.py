"""Tables: medians and spread, and why a cell is empty."""

from __future__ import annotations

import pytest

from benchmarks.report.tables import DASH, NOTHING, number, table_of
from tests.support.benchmark_results import made_results, made_run


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (2.0, "2"),
        (0.456, "0.46"),
        (12.34, "12.3"),
        (217.6, "218"),
        (50_000.0, "50,000"),
        (1999.9, "2,000"),
    ],
)
def test_numbers_have_the_digits_that_mean_something(value: float, text: str):
    assert number(value) == text


def test_a_cell_has_the_median_and_the_spread_where_there_is_one():
    results = made_results(
        made_run("a"), "cold", a={"rate": [210.4, 190.2, 250.0], "writes": [2.0, 2.0, 2.0]}
    )
    found = table_of(results, "cold")
    assert found.header == ["", "objects/s", "writes per object"]
    assert found.rows == [["a", f"210 (190{DASH}250)", "2"]]


def test_groups_are_rows_with_the_sizes_of_the_run():
    results = made_results(
        made_run("a", "b"), "change", a={"few.ms": [8.0], "many.ms": [9.0]}, b={"few.ms": [7.0]}
    )
    found = table_of(results, "change")
    assert found.labels == 2
    assert found.rows == [
        ["among 100", "a", "8"],
        ["among 100", "b", "7"],
        ["among 10,000", "a", "9"],
        ["among 10,000", "b", NOTHING],
    ]


def test_who_failed_is_in_the_table_and_why_below_it():
    results = made_results(made_run("a", "b"), "cold", a={"rate": [200.0]})
    results.sample("cold", "b", 1).failed[""] = "b: 12 of 2000 converged within 90 s"
    found = table_of(results, "cold")
    assert found.rows[1] == ["b", "failed"]
    assert found.notes == ["b: failed: b: 12 of 2000 converged within 90 s"]


def test_who_falls_behind_is_named():
    results = made_results(
        made_run("a", "b"), "latency", a={"at_300.behind": [160.0]}, b={"at_300.behind": [140.0]}
    )
    assert table_of(results, "latency").notes == ["a, 300/s: falls behind: 160 of 600 waited at the end"]


def test_who_does_not_take_part_is_below_the_table_only():
    run = made_run("a", "b", lacks={"a": {"pods": "it keeps no Pods"}, "b": {"memory": "it is too slow"}})
    found = table_of(made_results(run, "memory", a={"idle.mb": [60.0]}), "memory")
    assert [row[1] for row in found.rows] == ["a"] * 3
    assert found.notes == [
        "b is not in this: it is too slow",
        "a is not in 50,000 Pods, whole: it keeps no Pods",
    ]
