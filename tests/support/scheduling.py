"""Order of the tests, and their distribution over control planes and the workers of pytest-xdist."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.support.control_plane_kinds import KINDS, ControlPlaneKind

KIND_PARAMETER = "control_plane_kind"
# Of these files each test goes to a worker of its own: it takes seconds, and needs nothing of the others.
APART = frozenset({"tests/unit/manager_tools/simulation/test_seeds_operators.py"})


def kind_of(item: pytest.Item) -> ControlPlaneKind | None:
    """Return the kind of control plane that a test is parametrized with, if it needs one."""
    found: ControlPlaneKind | None = None
    if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        found = item.callspec.params.get(KIND_PARAMETER)
    return found


def has_business_on(item: pytest.Item, *, everything: bool) -> bool:
    """Return whether a test must run on the control plane kind of its parameter.

    With `everything`, all tests are of the contract.
    """
    kind = kind_of(item)
    if kind is None or not kind.marks or (everything and "contract" in kind.marks):
        return True
    return any(item.get_closest_marker(mark) for mark in kind.marks)


def runs_nowhere_else(item: pytest.Item) -> bool:
    """Return whether a test runs only on the default control plane, without a mark for another one."""
    here = kind_of(item)
    return not (here and here.marks) and not any(
        item.get_closest_marker(mark) for kind in KINDS for mark in kind.marks
    )


def arrange(items: list[pytest.Item]) -> None:
    """Sort tests so that workers wait as little as possible; the sort is stable.

    Tests on the same kind of control plane follow each other, so that it starts only once. The tests of one
    file stay together; tests marked `last` end their file.
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


class UnitScheduling(LoadScopeScheduling):
    """Scheduler that gives workers whole units, in the order of the tests."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
