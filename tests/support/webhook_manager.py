"""A manager on this machine whose webhooks a control plane asks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.manager_process import ManagerProcess
from tests.support.memcacheds import memcached, memcached_path
from tests.support.ports import PortBlock

VALIDATING = "operator-manager-validating-webhook-configuration"
MUTATING = "operator-manager-mutating-webhook-configuration"


def wait_asked(plane: ControlPlane) -> None:
    """Wait until the API server asks: of a new configuration it reads by a watch, a moment later."""
    body = memcached("is-anybody-asked", size=1001)

    def warned() -> None:
        plane.api.request("POST", memcached_path("default"), query={"dryRun": "All"}, body=body)
        assert "spec.size" in str(plane.api.warnings)

    eventually(warned)


@contextlib.contextmanager
def webhook_manager(
    plane: ControlPlane,
    folder: Path,
    *flags: str,
    asked: Callable[[ControlPlane], object] = wait_asked,
    **options: Any,
) -> Iterator[ManagerProcess]:
    """Run a manager that serves webhooks at a URL with its own certificates, once the API server calls it.

    `asked` waits for that call. The other options are those of `ManagerProcess`.
    """
    with PortBlock(1) as ports:
        address = f"127.0.0.1:{ports[0]}"
        with ManagerProcess(
            plane.kubeconfig,
            f"--webhook-bind-address={address}",
            f"--webhook-url=https://{address}",
            f"--webhook-local-path={folder / 'webhook'}",
            *flags,
            folder=folder,
            **options,
        ) as manager:
            manager.wait_ready()
            asked(plane)
            yield manager
