"""A local manager whose webhooks a control plane calls, and a kubectl user whose writes it reviews."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from tests.support.api_objects import object_path
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.manager_process import ManagerProcess
from tests.support.memcacheds import memcached, memcached_path
from tests.support.ports import PortBlock


def wait_asked(plane: ControlPlane) -> None:
    """Wait until the API server calls the webhooks; the calls begin some time after the registration."""
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
    """Run a manager with webhooks at a URL and its own certificates; yield it after the first webhook call.

    `asked` waits for the first call. `options` are those of `ManagerProcess`.
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


WARNING = "Warning: "


class Person:
    """User that writes with kubectl as the administrator and reads from the API directly, which is faster."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace

    def can(self, *arguments: str, given: dict[str, Any] | None = None) -> list[str]:
        """Run a kubectl command that must succeed; return its warnings. `given` is an object for stdin."""
        lines = self._kubectl(*arguments, given=given, check=True).stderr.splitlines()
        assert all(line.startswith(WARNING) for line in lines), lines
        return [line.removeprefix(WARNING) for line in lines]

    def cannot(self, *arguments: str, given: dict[str, Any] | None = None) -> str:
        """Run a kubectl command that must fail; return its stderr. `given` is an object for stdin."""
        done = self._kubectl(*arguments, given=given)
        assert done.returncode == 1, f"{done.stdout}{done.stderr}"
        return done.stderr

    def reads(self, resource: str, name: str) -> Any:
        """Return the object; `resource` has the form `pets.v1alpha1.petstore.example.com`."""
        return self.plane.api.get(self.path(resource, name))

    def sees(self, resource: str) -> list[str]:
        """Return the names of all objects of the resource in the namespace."""
        found = self.plane.api.get(self.path(resource))
        return [each["metadata"]["name"] for each in found["items"]]

    def path(self, resource: str, name: str = "") -> str:
        plural, version, group = resource.split(".", 2)
        return object_path(f"{group}/{version}", self.namespace, plural, name)

    def _kubectl(
        self, *arguments: str, given: dict[str, Any] | None = None, check: bool = False
    ) -> CompletedProcess[str]:
        stdin = None if given is None else json.dumps(given)
        files = () if given is None else ("-f", "-")
        return self.plane.kubectl(
            f"--namespace={self.namespace}", *arguments, *files, stdin=stdin, check=check
        )
