"""Which tests run on which control plane, in which order, and which go to one worker of pytest-xdist."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.support.control_plane_kinds import KINDS

if TYPE_CHECKING:
    from tests.support.control_plane_kinds import ControlPlaneKind

LONGEST = (
    "tests/integration/test_faults.py",
    "tests/integration/test_costs.py",
    "tests/integration/test_stopping.py",
    "tests/integration/webhook/test_certificate_renewal.py",
    "tests/conformance/kubectl/test_kubectl.py",
    "tests/integration/test_deploy.py",
    "tests/integration/test_documentation.py",
    "tests/integration/test_recovery.py",
    "tests/integration/test_replicas.py",
    "tests/integration/test_container.py",
    "tests/integration/test_image.py",
    "tests/integration/test_peers.py",
    "tests/integration/test_benchmarks.py",
    "tests/unit/benchmarks/micro/test_suites.py",
    "tests/demo/test_demo.py",
)
"""Files that wait for long, the one that takes longest first: begun late, they would be waited for."""
KIND_PARAMETER = "control_plane_kind"


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
    """Whether a test has no mark that brings it to another control plane."""
    return not any(item.get_closest_marker(mark) for kind in KINDS for mark in kind.marks)


def arrange(items: list[pytest.Item]) -> None:
    """Put tests in the order in which least is waited for, and leave it where that makes no difference.

    Those on a control plane come first, since they wait more than they work, and those on the same kind come
    one after the other, so that it is started but once. Files stay together; in each, what is marked `last`
    is last.
    """
    kinds = {kind: place for place, kind in enumerate(KINDS)}
    files = {path: place for place, path in enumerate(dict.fromkeys(item.path for item in items))}

    def place(item: pytest.Item) -> tuple[int, int, int, bool]:
        kind = kind_of(item)
        name = item.nodeid.partition("::")[0]
        return (
            kinds[kind] if kind else len(kinds),
            LONGEST.index(name) if name in LONGEST else len(LONGEST),
            files[item.path],
            item.get_closest_marker("last") is not None,
        )

    items.sort(key=place)


class ByFileAndControlPlane(LoadFileScheduling):
    """Gives a worker the tests of a file, those on each kind of control plane by themselves."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        parameters = nodeid.partition("[")[2]
        # Of two, one of which is the beginning of the other, the longer.
        kind = max((kind.name for kind in KINDS if parameters.startswith(kind.name)), key=len, default="")
        return f"{file} {kind}"
