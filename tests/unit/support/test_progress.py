"""Progress report of a run of many tests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal

import pytest

from tests.support.progress import Progress, Tally

A, B, C = "tests/unit/test_a.py::test_it", "tests/unit/test_b.py::test_it", "tests/unit/test_c.py::test_it"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def report(nodeid: str, outcome: Literal["passed", "failed", "skipped"], when: str = "call"):
    return pytest.TestReport(nodeid, ("", 0, ""), {}, outcome, None, when)  # type: ignore[arg-type]


def test_tally_counts_the_workers_that_have_found_the_tests_until_all_have():
    clock = Clock()
    tally = Tally(2, clock)
    tally.collected(8000)
    clock.now += 12
    assert tally.line() == " 0:12  1 of 2 workers have found the tests"


def test_tally_shows_counts_and_the_tests_that_have_run_longest():
    clock = Clock()
    tally = Tally(1, clock)
    tally.collected(8000)
    for nodeid in (A, B, C):
        tally.started(nodeid)
        clock.now += 30
    for when in ("setup", "call", "teardown"):
        tally.reported(report(A, "passed", when))
    tally.finished(A)
    tally.reported(report("x", "skipped", "setup"))
    tally.reported(report("y", "failed", "setup"))
    assert tally.line() == (
        " 1:30  3 of 8,000: 1 passed, 1 failed, 1 skipped; "
        "runs: test_b.py::test_it (60 s), test_c.py::test_it (30 s)"
    )


def test_a_file_that_cannot_be_imported_is_told_of_at_once_and_only_once():
    told: list[str] = []
    config: Any = SimpleNamespace(getoption=lambda _: ["gw0", "gw1"])
    progress = Progress(config)
    progress._reporter = SimpleNamespace(write_line=lambda line, **_: told.append(line))  # type: ignore[assignment]
    for _ in range(2):
        progress.pytest_collectreport(
            pytest.CollectReport("tests/a.py", "failed", "E   ImportError: no b", [])
        )
    progress.pytest_collectreport(pytest.CollectReport("tests/c.py", "passed", None, []))
    assert told == ["FAILED to collect tests/a.py: E   ImportError: no b"]
