"""Progress report of a test run with several workers."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import Any

import pytest

from tests.support.scheduling import unit_of, write_seconds

EVERY = 10.0
# The number of running tests in a line: those that have run longest.
NAMED = 2
LENGTH = 80


class Tally:
    """How far the run is."""

    def __init__(self, workers: int, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._began = now()
        self._workers = workers
        self._collected = 0
        self._total = 0
        self._outcomes = {"passed": 0, "failed": 0, "skipped": 0}
        self._running: dict[str, float] = {}

    def collected(self, total: int) -> None:
        """Count a worker that has collected the tests, and waits for the others."""
        self._collected += 1
        self._total = total

    def started(self, nodeid: str) -> None:
        """Record the start of a test."""
        self._running[nodeid] = self._now()

    def finished(self, nodeid: str) -> None:
        """... and it ended."""
        self._running.pop(nodeid, None)

    def reported(self, report: pytest.TestReport) -> None:
        """Count a test's call, and failures of its setup and teardown."""
        if report.when == "call" or report.outcome != "passed":
            self._outcomes[report.outcome] += 1

    def line(self) -> str:
        """Return the progress as one line."""
        now = self._now()
        minutes, seconds = divmod(int(now - self._began), 60)
        clock = f"{minutes:2}:{seconds:02}  "
        if self._collected < self._workers:
            return f"{clock}{self._collected} of {self._workers} workers have found the tests"
        done = sum(self._outcomes.values())
        outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in self._outcomes.items())
        # The tests are in the order of their start.
        longest = [
            f"{_short(nodeid)} ({now - began:.0f} s)" for nodeid, began in list(self._running.items())[:NAMED]
        ]
        return f"{clock}{done:,} of {self._total:,}: {outcomes}; runs: {', '.join(longest) or 'none'}"


def _short(nodeid: str) -> str:
    file, _, test = nodeid.partition("::")
    name = f"{file.rpartition('/')[2]}::{test}"
    return name if len(name) <= LENGTH else f"{name[: LENGTH - 3]}..."


class Progress:
    """A line every ten seconds instead of a dot for each test, and another for each failure at once."""

    def __init__(self, config: pytest.Config) -> None:
        self._tally = Tally(len(config.getoption("tx")))
        self._reporter: pytest.TerminalReporter
        self._seconds: Counter[str] = Counter()
        self._ran: set[str] = set()
        self._uncollected: set[str] = set()
        self._ended = threading.Event()
        self._telling = threading.Thread(target=self._tell, name="progress", daemon=True)

    def _tell(self) -> None:
        while not self._ended.wait(EVERY):
            self._reporter.write_line(self._tally.line())

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._reporter = session.config.pluginmanager.getplugin("terminalreporter")
        self._reporter._show_progress_info = False  # no dots, so no percentage either
        self._telling.start()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._ended.set()
        self._telling.join()
        self._reporter.write_line(self._tally.line())
        if session.config.getoption("write_seconds"):
            write_seconds({unit: self._seconds[unit] for unit in self._ran})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and report.nodeid not in self._uncollected:  # each worker says it
            self._uncollected.add(report.nodeid)
            reason = report.longreprtext.strip().rpartition("\n")[2]
            self._reporter.write_line(f"FAILED to collect {report.nodeid}: {reason}", red=True)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._tally.collected(len(ids))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._tally.started(nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._tally.finished(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._tally.reported(report)
        if report.when == "call":
            self._ran.add(unit_of(report.nodeid))
        self._seconds[unit_of(report.nodeid)] += report.duration
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            message = crash.message if crash else report.longreprtext
            reason = message.strip().partition("\n")[0]
            self._reporter.write_line(f"FAILED {report.nodeid}: {reason}", red=True)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self) -> Generator[None, Any, Any]:
        category, _, word = yield
        return category, "", word
