"""Which tests run on which control plane, in which order, and which go to one worker of pytest-xdist."""

from __future__ import annotations

import collections
import contextlib
import importlib
import json
import os
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
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
APART = frozenset({"tests/unit/manager_tools/simulation/test_operators.py"})


def kind_of(item: pytest.Item) -> ControlPlaneKind | None:
    """The kind of control plane that a test is parametrized with, if it needs one."""
    found: ControlPlaneKind | None = None
    if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        found = item.callspec.params.get(KIND_PARAMETER)
    return found


def has_business_on(item: pytest.Item, *, everything: bool) -> bool:
    """Whether a test is to run on the kind of control plane that it is parametrized with.

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
    """Put tests in the order in which least is waited for, and leave it where that makes no difference.

    Those on the same kind of control plane come one after the other, so that it is started but once. Files
    stay together; in each, what is marked `last` is last.
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
    """What goes to a worker as a whole: a file's tests on one kind of control plane, or those on none."""
    file, _, test = nodeid.partition("::")
    if file in APART:
        return nodeid
    parameters = test.partition("[")[2]
    # Of two, one of which is the beginning of the other, the longer.
    kind = max((kind.name for kind in KINDS if parameters.startswith(kind.name)), key=len, default="")
    return f"{file} {kind}".rstrip()


def plane_of(unit: str) -> str:
    """Of a unit, the name of the kind of control plane."""
    return unit.partition(" ")[2]


def import_in_turn(config: pytest.Config) -> None:
    """Import the tests that are to be collected, each worker beginning with others.

    So what is not compiled yet is compiled by one of them, and not by all.
    """
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is None:
        return
    named = [config.invocation_params.dir / argument.partition("::")[0] for argument in config.args]
    files = sorted(
        {file for path in named for file in (path.rglob("test_*.py") if path.is_dir() else [path])}
    )
    ahead = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for file in [*files[ahead:], *files[:ahead]]:
        name = ".".join(file.relative_to(config.rootpath).with_suffix("").parts)
        # What cannot be imported is told of when it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(name)


class Bounded:
    """Leaves out the rest of a file that takes longer than so many seconds, unless that is known.

    What is known to take long, by `seconds.json`, is run because somebody has asked for it.
    """

    def __init__(self, seconds: float, now: Callable[[], float] = lambda: sum(os.times()[:4])) -> None:
        """`now` is the CPU time of this process and of those that it has waited for."""
        self._seconds = seconds
        self._now = now
        self._known = {_file_of(unit) for unit in json.loads(SECONDS.read_text())}
        self._spent: collections.Counter[str] = collections.Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        began = self._now()
        try:
            return (yield)
        finally:
            self._spent[item.nodeid.partition("::")[0]] += self._now() - began

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        file = item.nodeid.partition("::")[0]
        if file not in self._known and self._spent[file] > self._seconds:
            pytest.skip(f"{file} takes long, which tests/support/seconds.json does not say; see make test")


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
    """Which unit a worker is given: the longest one on the control plane that it has running.

    What waits, on a control plane, comes before what only works. And of the control planes, a worker is
    brought to the one whose tests would take longest still if one worker more ran them.
    """

    def __init__(self, seconds: Mapping[str, float]) -> None:
        """`seconds` of the units that take long."""
        self._seconds = seconds
        self._planes: dict[Hashable, str] = {}

    def next_of(self, worker: Hashable, units: Iterable[str]) -> str:
        """The one of these units that the worker is given, and runs."""
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


def write_seconds(measured: Mapping[str, float]) -> None:
    """Keep what was measured, and of units that were not run what is known."""
    known = {
        unit: known
        for unit, known in json.loads(SECONDS.read_text()).items()
        if Path(_file_of(unit)).exists()
    }
    long = {unit: round(seconds, 1) for unit, seconds in measured.items() if seconds >= WORTH_KEEPING}
    kept = {unit: seconds for unit, seconds in known.items() if unit not in measured} | long
    lines = json.dumps(dict(sorted(kept.items(), key=lambda each: -each[1])), indent=1)
    SECONDS.write_text(f"{lines}\n")


def _file_of(unit: str) -> str:
    return unit.partition(" ")[0].partition("::")[0]
