"""The kinds of control plane that the integration tests run against: each test on every kind there is."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tests.support import envtest
from tests.support.devcluster_plane import DevclusterControlPlane

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.control_plane import ControlPlane


@dataclasses.dataclass(frozen=True, slots=True)
class ControlPlaneKind:
    """A way to make control planes: `create(folder, **options)`, options as EnvtestControlPlane takes them.

    `why_not` tells why this machine cannot run it, None when it can.
    """

    name: str
    why_not: Callable[[], str | None]
    create: Callable[..., ControlPlane]


KINDS = [
    ControlPlaneKind("devcluster", lambda: None, DevclusterControlPlane),
    ControlPlaneKind("envtest", envtest.why_not, envtest.EnvtestControlPlane),
]
