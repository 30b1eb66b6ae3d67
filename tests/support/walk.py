"""Helper for tests that use an operator through kubectl, as a user does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tests.support.api_objects import object_path
from tests.support.control_plane import ControlPlane
from tests.support.manager_process import ManagerProcess

W = TypeVar("W", bound="Walk")


class Walk:
    """A namespace, with kubectl commands and a manager that watches it."""

    def __init__(self, plane: ControlPlane, namespace: str, manager: ManagerProcess) -> None:
        self.plane = plane
        self.namespace = namespace
        self.manager = manager

    def kubectl(self, *arguments: str, **options: Any) -> str:
        """Return the output of kubectl in the namespace; `options` are those of `ControlPlane.kubectl`."""
        return self.plane.kubectl(f"--namespace={self.namespace}", *arguments, **options).stdout

    def get(self, api: str, plural: str, name: str) -> dict[str, Any]:
        """Return one object of the namespace; `api` is its apiVersion."""
        found: dict[str, Any] = self.plane.api.get(object_path(api, self.namespace, plural, name))
        return found

    def errors(self) -> list[dict[str, Any]]:
        return [line for line in self.manager.logs() if line.get("level") == "error"]

    def reconciles(self, controller: str) -> int:
        """Return the number of reconciles of a controller that have ended, with any result."""
        samples = self.manager.metrics()
        return int(samples.value("controller_runtime_reconcile_total", controller=controller))


@contextmanager
def walking(walk: type[W], plane: ControlPlane, namespace: str, manager: ManagerProcess) -> Iterator[W]:
    """Yield a `walk` when its manager is ready; at the end, assert that the manager logged no error."""
    walked = walk(plane, namespace, manager.wait_ready())
    yield walked
    assert not walked.errors()
