"""File of measured results: a partial run keeps the rest."""

from __future__ import annotations

from pathlib import Path

from benchmarks.results import Results
from tests.support.benchmark_results import made_results, made_run


def test_results_survive_write_and_read(tmp_path: Path):
    results = made_results(made_run("a", "b"), "cold", a={"rate": [1.0, 2.0]}, b={"rate": [3.0]})
    results.sample("cold", "b", 2).failed[""] = "not ready within 30 s"
    results.sample("cold", "a", 1).requests["POST deployments 201"] = 2000
    results.write(tmp_path / "deep" / "results.json")
    assert Results.read(tmp_path / "deep" / "results.json") == results


def test_merged_results_keep_the_run_of_parts_not_measured_again():
    old = made_run("a", date="2026-11-20 10:00")
    whole = made_results(old, "cold", a={"rate": [1.0]}).merged_with(
        made_results(old, "ten", a={"watches": [1.0]})
    )
    new = made_results(made_run("a", date="2026-11-21 10:00"), "cold", a={"rate": [2.0]})
    merged = whole.merged_with(new)
    assert merged.run_of("cold").date == "2026-11-21 10:00"
    assert merged.run_of("ten").date == "2026-11-20 10:00"
    assert merged.samples["cold"][0].figures == {"rate": 2.0}
