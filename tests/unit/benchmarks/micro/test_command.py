"""`python -m benchmarks.micro`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.micro.__main__ import main, select
from benchmarks.micro.baseline import Baseline
from benchmarks.micro.benchmark import Benchmark, ready
from benchmarks.micro.catalogue import SUITES
from benchmarks.micro.figures import Middle

pytestmark = pytest.mark.usefixtures("gc_thresholds")

FAST = "reconcile.call"


def names(*wanted: str) -> list[list[str]]:
    return [[benchmark.name for benchmark in suite] for suite in select(wanted)]


def test_select_returns_all_suites_without_names():
    assert names() == [[benchmark.name for benchmark in suite] for suite in SUITES.values()]


def test_select_returns_suite_by_name():
    assert names("queue") == [[benchmark.name for benchmark in SUITES["queue"]]]


def test_select_adds_benchmarks_that_the_named_one_is_compared_with():
    assert names("event.first") == [["event.first", "event.naive"]]


def test_select_matches_patterns_across_suites():
    assert names("*.naive") == [["event.naive"]]
    assert names("patch.*", "reconcile.call") == [
        [benchmark.name for benchmark in SUITES["patch"]],
        ["reconcile.call"],
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "there is no benchmark 'nothing'"),
        (["--rounds", "0"], "'0' is not a positive number"),
        (["--rounds", "many"], "'many' is not a positive number"),
        (["--against", "/nowhere/baseline"], "/nowhere/baseline: No such file or directory"),
        (["--rounds", "1", "--save", "/nowhere/baseline", FAST], "/nowhere/baseline: No such file"),
    ],
)
def test_main_exits_with_2_and_names_bad_argument(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_list_option_prints_names_with_descriptions(capsys: pytest.CaptureFixture[str]):
    assert main(["--list", "event"]) == 0
    assert "event.first     an Event about an object that had none" in capsys.readouterr().out


def test_calls_option_runs_benchmark_that_often_and_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    done = []
    counted = Benchmark("counted", "", ready(lambda: lambda: done.append(1)))
    monkeypatch.setitem(SUITES, "counted", (counted,))
    assert main(["--calls", "3", "counted"]) == 0
    assert (len(done), capsys.readouterr().out) == (3, "")


def test_figures_are_printed_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "baseline"
    assert main(["--rounds", "1", "--save", str(path), FAST]) == 0
    assert FAST in capsys.readouterr().out
    assert set(Baseline.load(path).costs) == {FAST}


@pytest.mark.parametrize(("before", "code", "said"), [(1e-9, 1, "slower"), (1e9, 0, "faster")])
def test_against_option_prints_change_and_fails_when_slower(
    before: float, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "baseline"
    Baseline.now({FAST: Middle(before, 0.0)}).save(path)
    assert main(["--rounds", "1", "--against", str(path), FAST]) == code
    assert capsys.readouterr().out.splitlines()[-1].split()[-1] == said


def test_against_option_names_benchmark_that_baseline_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "baseline"
    Baseline.now({}).save(path)
    assert main(["--rounds", "1", "--against", str(path), FAST]) == 0
    assert f"the baseline does not have {FAST}" in capsys.readouterr().out
