"""Order of the tests, and their distribution over control planes and pytest-xdist workers."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.support.control_plane_kinds import KINDS, ControlPlaneKind

KIND_PARAMETER = "control_plane_kind"
# Files whose tests may run on different workers, because each test takes seconds.
APART = frozenset({"tests/unit/manager_tools/simulation/test_seeds_operators.py"})


def kind_of(item: pytest.Item) -> ControlPlaneKind | None:
    """Return the kind of control plane in the test's parameters; None if the test needs no control plane."""
    found: ControlPlaneKind | None = None
    if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        found = item.callspec.params.get(KIND_PARAMETER)
    return found


def has_business_on(item: pytest.Item, *, everything: bool) -> bool:
    """Return whether a test runs on the kind of control plane in its parameters.

    With `everything`, every test runs on kinds that run the tests marked `contract`.
    """
    kind = kind_of(item)
    if kind is None or not kind.marks or (everything and "contract" in kind.marks):
        return True
    return any(item.get_closest_marker(mark) for mark in kind.marks)


def runs_nowhere_else(item: pytest.Item) -> bool:
    """Return whether a test runs only on the default kind of control plane."""
    here = kind_of(item)
    return not (here and here.marks) and not any(
        item.get_closest_marker(mark) for kind in KINDS for mark in kind.marks
    )


def arrange(items: list[pytest.Item]) -> None:
    """Sort the tests, so that each kind of control plane starts only once; the sort is stable.

    Tests of one file stay together, and tests marked `last` are at the end of their file.
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
    """Return the name of a group of tests for one worker: the file and the kind of control plane."""
    file, _, test = nodeid.partition("::")
    if file in APART:
        return nodeid
    parameters = test.partition("[")[2]
    # If one name is the beginning of another, the longer one matches.
    kind = max((kind.name for kind in KINDS if parameters.startswith(kind.name)), key=len, default="")
    return f"{file} {kind}".rstrip()


class EndsWithItsTests:
    """Plugin that ends a session fixture as soon as a test that needs no control plane begins.

    An idle API server uses a twentieth of a CPU. If a later test needs the fixture, pytest sets it up again.
    Hooks in tests/conftest.py would not work, because pytest does not call them for session fixtures.
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


class UnitScheduling(LoadScopeScheduling):
    """Scheduler that gives each worker whole groups of tests, in the order of the tests."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
