"""The kinds of control plane, and the marks of the integration tests that run on each kind."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from manager.util.version import KUBERNETES_VERSIONS
from tests.support import envtest
from tests.support.control_plane import ControlPlane
from tests.support.devcluster_plane import DevclusterControlPlane

OLDEST, NEWEST = KUBERNETES_VERSIONS


@dataclasses.dataclass(frozen=True, slots=True)
class ControlPlaneKind:
    """Kind of control plane; `create` takes its folder, `parts` and flags, as EnvtestControlPlane does.

    A test runs on this kind if the test has one of `marks`, or if `marks` is empty. `why_not` returns why
    this machine cannot run this kind, or None if it can.
    """

    name: str
    version: str
    marks: frozenset[str]
    why_not: Callable[[], str | None]
    create: Callable[..., ControlPlane]


KINDS = [
    ControlPlaneKind("devcluster", NEWEST, frozenset(), lambda: None, DevclusterControlPlane),
    ControlPlaneKind(
        "envtest", NEWEST, frozenset({"contract", "oldest"}), envtest.why_not, envtest.EnvtestControlPlane
    ),
    ControlPlaneKind(
        f"envtest-{OLDEST}",
        OLDEST,
        frozenset({"oldest"}),
        functools.partial(envtest.why_not, envtest.OLDEST),
        functools.partial(envtest.EnvtestControlPlane, programs=envtest.OLDEST),
    ),
]
