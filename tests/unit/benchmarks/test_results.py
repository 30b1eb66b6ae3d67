"""File of measured results: a partial run keeps the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.machine import Pace
from benchmarks.results import Recorder, Results
from tests.support.benchmark_results import made_results, made_run


def test_results_survive_write_and_read(tmp_path: Path):
    results = made_results(made_run("a", "b"), "cold", a={"rate": [1.0, 2.0]}, b={"rate": [3.0]})
    results.sample("cold", "b", 2).failed[""] = "not ready within 30 s"
    results.sample("cold", "a", 1).requests["POST deployments 201"] = 2000
    results.write(tmp_path / "deep" / "results.json")
    assert Results.read(tmp_path / "deep" / "results.json") == results


@pytest.mark.parametrize("text", ["{}", "[]", '{"runs": {"x": {}}, "of_run": {}, "samples": {}}', "no JSON"])
def test_results_read_refuses_file_without_results(tmp_path: Path, text: str):
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"results|Expecting"):
        Results.read(path)


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


def test_merged_results_drop_runs_without_parts():
    old, new = made_run("a", date="2026-11-20 10:00"), made_run("a", date="2026-11-21 10:00")
    merged = made_results(old, "cold", a={"rate": [1.0]}).merged_with(made_results(new, "cold"))
    assert list(merged.runs) == ["2026-11-21 10:00"]


def test_figures_of_one_round_come_together_in_one_sample():
    results = Results.begin(made_run("a"), ["memory"])
    recorder = Recorder(results, "a")
    recorder.record("memory", 1, {"mb": 60.0}, group="idle")
    recorder.record("memory", 1, {"mb": 90.0}, group="pods", requests={"LIST pods 200": 1})
    recorder.record("memory", 2, {"mb": 61.0}, group="idle")
    recorder.fail("memory", 2, "killed", group="pods")
    first, second = results.samples["memory"]
    assert first.figures == {"idle.mb": 60.0, "pods.mb": 90.0}
    assert first.requests == {"LIST pods 200": 1}
    assert second.failed == {"pods": "killed"}


def test_recorder_stores_machine_pace_only_with_figures_it_affects():
    results, paces = Results.begin(made_run("a"), ["memory", "startup"]), iter([1.0, 1.5])
    recorder = Recorder(results, "a", pace=lambda: next(paces))
    recorder.record("startup", 1, {"ready_s": 0.5})
    recorder.record("memory", 1, {"mb": 60.0}, group="idle")
    recorder.record("memory", 1, {"mb": 90.0, "sync_s": 2.0}, group="pods")
    assert results.samples["startup"][0].figures == {"ready_s": 0.5, "pace_ms": 1.0}
    figures = {"idle.mb": 60.0, "pods.mb": 90.0, "pods.sync_s": 2.0, "pods.pace_ms": 1.5}
    assert results.samples["memory"][0].figures == figures


def test_recorder_skips_pace_measurement_during_takeover():
    results = Results.begin(made_run("a"), ["takeover"])
    recorder = Recorder(results, "a", pace=lambda: pytest.fail("it would disturb the others"))
    recorder.record("takeover", 1, {"seconds": 12.0}, group="sigkill")
    assert results.samples["takeover"][0].figures == {"sigkill.seconds": 12.0}


def test_pace_since_last_returns_the_slower_of_two_measurements(monkeypatch: pytest.MonkeyPatch):
    clock = iter([2.0, 1.0, 1.0, 3.0])
    monkeypatch.setattr("benchmarks.machine._piece_ms", lambda: next(clock))
    pace = Pace()
    assert [pace.since_last() for _ in range(3)] == [2.0, 1.0, 3.0]


def test_pace_since_last_is_positive():
    assert Pace().since_last() > 0


def test_figures_of_a_part_that_nobody_asked_for_or_a_peer_is_not_in_are_let_go():
    results = Results.begin(made_run("a"), ["cold"])
    recorder = Recorder(results, "a")
    recorder.record("memory", 1, {"mb": 60.0})
    recorder.fail("memory", 1, "killed")
    Recorder(results, "b", lacks=["cold"]).record("cold", 1, {"rate": 60.0})
    assert results.samples == {"cold": []}


def test_results_write_leaves_only_the_complete_file(tmp_path: Path):
    path = tmp_path / "results.json"
    made_results(made_run("a"), "cold", a={"rate": [1.0]}).write(path)
    assert json.loads(path.read_text())
    assert [each.name for each in tmp_path.iterdir()] == ["results.json"]
