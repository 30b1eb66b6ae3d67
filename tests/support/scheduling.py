"""Order of the tests, and their distribution over control planes and the workers of pytest-xdist."""

from __future__ import annotations

import collections
import json
from collections.abc import Generator, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.support.control_plane_kinds import KINDS, ControlPlaneKind

KIND_PARAMETER = "control_plane_kind"
SECONDS = Path(__file__).with_name("seconds.json")
# A worker that has no control plane running gets one when this many seconds of tests are there for it.
WORTH_A_START = 20.0
WORTH_KEEPING = 0.8
# Of these files each test goes to a worker of its own: it takes seconds, and needs nothing of the others.
APART = frozenset({"tests/unit/manager_tools/simulation/test_seeds_operators.py"})


def kind_of(item: pytest.Item) -> ControlPlaneKind | None:
    """Return the kind of control plane that a test is parametrized with, if it needs one."""
    found: ControlPlaneKind | None = None
    if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        found = item.callspec.params.get(KIND_PARAMETER)
    return found


def has_business_on(item: pytest.Item, *, everything: bool) -> bool:
    """Return whether a test is to run on the kind of control plane that it is parametrized with.

    With `everything`, all tests are of the contract.
    """
    kind = kind_of(item)
    if kind is None or not kind.marks or (everything and "contract" in kind.marks):
        return True
    return any(item.get_closest_marker(mark) for mark in kind.marks)


def runs_nowhere_else(item: pytest.Item) -> bool:
    """Whether a test is where all tests run, and has no mark that brings it to another control plane."""
    here = kind_of(item)
    return not (here and here.marks) and not any(
        item.get_closest_marker(mark) for kind in KINDS for mark in kind.marks
    )


def arrange(items: list[pytest.Item]) -> None:
    """Sort tests so that workers wait as little as possible; the sort is stable.

    Tests on the same kind of control plane follow each other, so that it starts only once. The tests of one
    file
    stay together; tests marked `last` end their file.
    """
    kinds = {kind: place for place, kind in enumerate(KINDS)}
    files = {path: place for place, path in enumerate(dict.fromkeys(item.path for item in items))}

    def place(item: pytest.Item) -> tuple[int, int, bool]:
        kind = kind_of(item)
        return (
            kinds[kind] if kind else len(kinds),
            files[item.path],
            item.get_closest_marker("last") is not None,
        )

    items.sort(key=place)


def unit_of(nodeid: str) -> str:
    """Return the unit of work: a file's tests on one kind of control plane, or on none."""
    file, _, test = nodeid.partition("::")
    if file in APART:
        return nodeid
    parameters = test.partition("[")[2]
    # If one name is the beginning of another, the longer one matches.
    kind = max((kind.name for kind in KINDS if parameters.startswith(kind.name)), key=len, default="")
    return f"{file} {kind}".rstrip()


def plane_of(unit: str) -> str:
    """Return the name of the unit's kind of control plane; empty if it needs none."""
    return unit.partition(" ")[2]


class EndsWithItsTests:
    """Ends what a worker shares before the tests that need no control plane, which come last.

    An idle API server takes a twentieth of a processor. Should a test come that needs it, it is started anew.
    This is a plugin because hooks of tests/conftest.py are not called for what a whole session shares.
    """

    def __init__(self, fixture: str) -> None:
        self._name = fixture
        self._running: list[tuple[pytest.FixtureDef[Any], Any]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        if fixturedef.argname == self._name:
            self._running.append((fixturedef, request))
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        while self._running and kind_of(item) is None:
            fixturedef, request = self._running.pop()
            fixturedef.finish(request)


class Plan:
    """Scheduler of units: a worker gets the longest unit on the control plane that it already runs.

    Units that wait (on a control plane) come before units that only use CPU. A worker without a control plane
    gets the one whose remaining tests would take longest with one more worker.
    """

    def __init__(self, seconds: Mapping[str, float]) -> None:
        """Create a plan; `seconds` has the units that take long."""
        self._seconds = seconds
        self._planes: dict[Hashable, str] = {}

    def next_of(self, worker: Hashable, units: Iterable[str]) -> str:
        """Choose one of these units for the worker, and remember its control plane."""
        left: dict[str, list[str]] = {}
        for unit in units:
            left.setdefault(plane_of(unit), []).append(unit)
        plane = self._planes.get(worker)
        if plane is None or plane not in left:
            plane = self._plane_for_another(left)
            if plane:
                self._planes[worker] = plane
        return max(left[plane], key=self._length)

    def _plane_for_another(self, left: Mapping[str, Sequence[str]]) -> str:
        workers = collections.Counter(self._planes.values())
        shares = {
            plane: sum(map(self._length, units)) / (workers[plane] + 1)
            for plane, units in left.items()
            if plane
        }
        longest = max(shares, key=shares.__getitem__, default="")
        if "" in left and shares.get(longest, 0) < WORTH_A_START:
            return ""
        return longest

    def _length(self, unit: str) -> float:
        return self._seconds.get(unit, 1.0)


class LongestFirst(LoadScopeScheduling):
    """Units go to workers as `Plan` has them, by the seconds that were measured."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._plan = Plan(json.loads(SECONDS.read_text()))

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(self._plan.next_of(node, self.workqueue), last=False)
        super()._assign_work_unit(node)


class Seconds:
    """Measures units for `seconds.json`; a unit that did not run keeps its entry."""

    def __init__(self) -> None:
        self._measured: collections.Counter[str] = collections.Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.skipped:
            self._measured[unit_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        known = json.loads(SECONDS.read_text())
        kept = {unit: known[unit] for unit in known if Path(_file_of(unit)).exists()} | self._measured
        long = {unit: round(kept[unit], 1) for unit in kept if kept[unit] >= WORTH_KEEPING}
        lines = json.dumps(dict(sorted(long.items(), key=lambda each: -each[1])), indent=1)
        SECONDS.write_text(f"{lines}\n")


def _file_of(unit: str) -> str:
    return unit.partition(" ")[0].partition("::")[0]
