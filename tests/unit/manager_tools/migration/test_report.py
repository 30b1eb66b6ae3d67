from __future__ import annotations

import sys
from typing import Any

import pytest

from manager.api import ObjectKey
from manager_tools.migration.definitions import StoredDefinition
from manager_tools.migration.report import MigrationOptions, Outcome, Report, Tally

Capture = pytest.CaptureFixture[str]
NAME = "pets.petstore.example.com"
PETS = StoredDefinition(
    name=NAME,
    uid="1",
    generation=1,
    resource_version="1",
    group="petstore.example.com",
    kind="Pet",
    plural="pets",
    namespaced=True,
    storage="v1beta1",
    served=("v1alpha1", "v1beta1"),
    with_status=frozenset(),
    stored=("v1alpha1", "v1beta1"),
    position=None,
    deleting=False,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def report_of(clock: Clock, **options: Any) -> Report:
    return Report(NAME, MigrationOptions(**options), clock)


def test_migration_report_prints_results_to_stdout_and_progress_to_stderr(clock: Clock, capsys: Capture):
    report = report_of(clock)
    report.settling(5)
    report.begins(PETS, after=2000)
    clock.now = 12.34
    report.ended(PETS, Outcome.DONE, Tally(rewritten=1200, no_need=30, gone=4))
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        f"{NAME}: 1,234 objects: 1,200 rewritten, 30 already migrated, 4 deleted meanwhile, in 12.3s",
        f"{NAME}: status.storedVersions is v1beta1 alone, and was v1alpha1 and v1beta1",
    ]
    assert captured.err.splitlines() == [
        f"{NAME}: waiting 5s, until every API server knows the definition",
        f"{NAME}: rewriting as v1beta1 what is stored as v1alpha1",
        f"{NAME}: continuing after 2,000 objects of an earlier run",
    ]


def test_migration_report_lists_a_hundred_refused_objects_and_counts_the_rest(clock: Clock, capsys: Capture):
    report = report_of(clock)
    report.begins(PETS, after=0)
    for number in range(103):
        report.refused(ObjectKey("default", f"p{number}"), "too old\n\x1b[2J")
    report.ended(PETS, Outcome.REFUSED, Tally(rewritten=5, refused=103))
    captured = capsys.readouterr()
    told = [line for line in captured.err.splitlines() if "refused" in line]
    assert told[0] == f"{NAME}: refused: default/p0: too old\\n\\x1b[2J"
    assert (len(told), told[-1]) == (101, f"{NAME}: refused: 3 more")
    assert captured.out.splitlines()[-1] == (
        f"{NAME}: 103 were refused; status.storedVersions stays v1alpha1 and v1beta1"
    )


def test_migration_report_of_a_dry_run_counts_the_possible_changes(clock: Clock, capsys: Capture):
    report = report_of(clock, dry_run=True)
    report.ended(PETS, Outcome.DONE, Tally(no_need=3))
    assert capsys.readouterr().out.splitlines() == [
        f"{NAME}: 3 of 3 objects could be rewritten, in 0s",
        f"{NAME}: status.storedVersions would be v1beta1 alone, and is v1alpha1 and v1beta1",
    ]


def test_migration_report_repeats_a_problem_only_after_progress(clock: Clock, capsys: Capture):
    report = report_of(clock)
    for _ in range(3):
        report.waiting("no connection")
    report.advanced(1, 2)
    report.waiting("no connection")
    assert capsys.readouterr().err.count("trying again: no connection") == 2


def test_migration_report_prints_a_progress_line_every_ten_seconds(clock: Clock, capsys: Capture):
    report = report_of(clock)
    report.begins(PETS, after=0)
    capsys.readouterr()
    for second in range(1, 26):
        clock.now = float(second)
        report.advanced(second * 100, 5000)
    assert capsys.readouterr().err.splitlines() == [
        f"{NAME}: 1,000 of 5,000 (20 %), about 40s left",
        f"{NAME}: 2,000 of 5,000 (40 %), about 30s left",
    ]


def test_migration_report_ignores_a_broken_pipe_on_stderr(clock: Clock, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object, **__: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(sys.stderr, "write", broken)
    report_of(clock).begins(PETS, after=0)


@pytest.mark.parametrize(("seen", "told"), [(0, "interrupted;"), (1200, "interrupted after 3,200 objects;")])
def test_migration_report_of_an_interrupted_run_asks_the_user_to_run_it_again(
    clock: Clock, capsys: Capture, seen: int, told: str
):
    report = report_of(clock)
    report.begins(PETS, after=2000)
    report.interrupted(Tally(rewritten=seen))
    assert f"{told} run it again to go on" in capsys.readouterr().err
