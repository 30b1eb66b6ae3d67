from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.micro.baseline import BadBaseline, Baseline, Change, changes
from benchmarks.micro.figures import Middle, cost, micros, ratio
from benchmarks.micro.sampling import Samples


def test_middle_is_median_and_half_the_relative_interquartile_range():
    assert Middle.of([1.0, 2.0, 10.0, 12.0, 100.0]) == Middle(10.0, 0.5)


def test_middle_of_single_value_has_zero_spread():
    assert Middle.of([3.0]) == Middle(3.0, 0.0)


def test_ratio_and_cost_are_unaffected_when_the_machine_slows_down():
    slower = [1.0, 1.5, 4.0]
    samples = Samples([2e-6 * factor for factor in slower], [1e-3 * factor for factor in slower])
    other = Samples([1e-6 * factor for factor in slower], [1e-3 * factor for factor in slower])
    assert ratio(samples, other) == Middle(pytest.approx(2.0), pytest.approx(0.0))
    assert cost(samples) == Middle(pytest.approx(2000.0), pytest.approx(0.0))


def test_micros_are_those_of_the_clock():
    assert micros(Samples([2e-6, 3e-6, 5e-6], [1.0, 1.0, 1.0])).value == pytest.approx(3.0)


def test_baseline_survives_save_and_load(tmp_path: Path):
    saved = Baseline.now({"queue.through": Middle(5.0, 0.1)})
    saved.save(tmp_path / "baseline")
    assert Baseline.load(tmp_path / "baseline") == saved


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"costs": 1, "versions": {}}', '{"costs": {"a": {}}, "versions": {}}']
)
def test_baseline_load_refuses_file_not_written_by_save(tmp_path: Path, text: str):
    path = tmp_path / "other"
    path.write_text(text)
    with pytest.raises(BadBaseline, match="other was not written by --save"):
        Baseline.load(path)


def test_baseline_load_names_missing_file(tmp_path: Path):
    with pytest.raises(BadBaseline, match="missing: No such file"):
        Baseline.load(tmp_path / "missing")


@pytest.mark.parametrize(
    ("before", "after", "slower", "faster"),
    [
        (Middle(10, 0.0), Middle(10, 0.0), False, False),
        (Middle(10, 0.01), Middle(11.9, 0.01), False, False),
        (Middle(10, 0.01), Middle(12.1, 0.01), True, False),
        (Middle(10, 0.2), Middle(12.1, 0.2), False, False),
        (Middle(10, 0.2), Middle(16, 0.2), True, False),
        (Middle(10, 0.01), Middle(8, 0.01), False, True),
        (Middle(10, 0.3), Middle(8, 0.3), False, False),
    ],
)
def test_change_is_slower_or_faster_only_beyond_tolerance_and_spread(
    before: Middle, after: Middle, slower: bool, faster: bool
):
    change = Change(before, after)
    assert (change.is_slower, change.is_faster) == (slower, faster)


def test_changes_contain_only_benchmarks_measured_both_times():
    before = Baseline.now({"both": Middle(1.0, 0.0), "gone": Middle(1.0, 0.0)})
    after = {"both": Middle(2.0, 0.0), "new": Middle(1.0, 0.0)}
    assert {name: change.factor for name, change in changes(before, after).items()} == {"both": 2.0}


def test_figures_list_packages_whose_version_differs():
    now = Baseline.now({})
    then = replace(now, versions={**now.versions, "orjson": "0.1"})
    assert then.other_versions(now) == [f"orjson {now.versions['orjson']} instead of 0.1"]
    assert now.other_versions(now) == []
