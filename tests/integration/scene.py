"""Memcacheds in a namespace of their own, and a manager whose way to the API server can be made to fail."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.api_objects import deployment_path
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.fault_proxy import FaultProxy
from tests.support.manager_process import ManagerProcess
from tests.support.memcacheds import memcached, memcached_path

MEMCACHED_KIND = "memcacheds.cache.example.com"
DEPLOYMENT_KIND = "deployments.apps"

# A busy machine takes its time, and a back-off may have grown meanwhile.
SETTLED_WITHIN = 120.0

# What may be tried while nothing works, however long that takes within a minute. An object's back-off begins
# at 5 ms and doubles, a watch's at 0.8 s; a failed write is one request, or two when its Event fails with it,
# and a failed watch is a request or two, each sent up to four times. Anything that does not back off is far
# above this within a second.
TRIES_PER_OBJECT = 14 * 2
TRIES_PER_WATCH = 7 * 5

CONNECTIONS_KEPT = 16
"""How many more connections than at its start a manager may hold at the end: watches, and idle ones."""

MOST_TASKS = 40
"""A controller of eight workers, and all that is there once, come to some thirty."""


@dataclasses.dataclass(frozen=True)
class Resources:
    """Resources of a process that it can leak, measured from outside."""

    tasks: float
    files: int
    threads: int


class Scene:
    """Actions and observations of a test from outside, past the proxy; the manager is behind the proxy.

    Keyword arguments are sizes of Memcacheds by name. `assert_settled` does the work of a garbage collector.
    """

    def __init__(
        self, plane: ControlPlane, namespace: str, proxy: FaultProxy, manager: ManagerProcess
    ) -> None:
        self.plane = plane
        self.namespace = namespace
        self.proxy = proxy
        self.manager = manager

    # Actions of a user.

    def create(self, **sizes: int) -> None:
        """Make Memcacheds of these names and sizes."""
        bodies = [memcached(name, size) for name, size in sizes.items()]
        self.plane.api.create_many(memcached_path(self.namespace), bodies)

    def scale(self, name: str, size: int) -> None:
        """Change a Memcached's size."""
        self.plane.api.patch(memcached_path(self.namespace, name), {"spec": {"size": size}})

    def delete(self, name: str) -> None:
        """Delete a Memcached, but not its Deployment."""
        self.plane.api.delete(memcached_path(self.namespace, name))

    def delete_deployment(self, name: str) -> None:
        self.plane.api.delete(deployment_path(self.namespace, name))

    # Results of the actions.

    def memcacheds(self) -> dict[str, dict[str, Any]]:
        return _by_name(self.plane.api.get(memcached_path(self.namespace)))

    def deployments(self) -> dict[str, dict[str, Any]]:
        return _by_name(self.plane.api.get(deployment_path(self.namespace)))

    def settle(self, *, within: float = SETTLED_WITHIN, **sizes: int) -> None:
        """Wait until there are exactly these Memcacheds, and everything is as they ask, in the caches too."""
        eventually(lambda: self.assert_settled(**sizes), within=within)
        eventually(lambda: self._assert_no_ghosts(len(sizes)), within=within)

    def assert_settled(self, **sizes: int) -> None:
        """Assert that exactly these Memcacheds exist, and that everything matches their specs."""
        memcacheds = self.memcacheds()
        self._collect_garbage(memcacheds)
        deployments = self.deployments()
        assert memcacheds.keys() == sizes.keys()
        assert deployments.keys() == sizes.keys()
        for name, size in sizes.items():
            metadata, status = memcacheds[name]["metadata"], memcacheds[name].get("status", {})
            deployment = deployments[name]
            assert status.get("observedGeneration") == metadata["generation"], f"{name}: {status}"
            assert deployment["metadata"]["ownerReferences"][0]["uid"] == metadata["uid"], name
            assert deployment["spec"]["replicas"] == size, name

    def _assert_no_ghosts(self, count: int) -> None:
        metrics = self.manager.metrics()
        for kind in (MEMCACHED_KIND, DEPLOYMENT_KIND):
            assert metrics.value("operator_manager_cache_objects", kind=kind) == count, kind
        assert self.manager.is_ready(), self.manager.probe("/readyz?verbose")

    def _collect_garbage(self, memcacheds: dict[str, dict[str, Any]]) -> None:
        living = {each["metadata"]["uid"] for each in memcacheds.values()}
        for name, deployment in self.deployments().items():
            owners = {owner["uid"] for owner in deployment["metadata"].get("ownerReferences", ())}
            if owners and not owners & living:
                self.delete_deployment(name)

    # Costs of the actions.

    def tried(self) -> float:
        """Return how many requests the manager has sent, answered or not."""
        return self.manager.metrics().value("rest_client_requests_total")

    def failed(self) -> float:
        """Return how many requests failed."""
        samples = self.manager.metrics().select("rest_client_requests_total")
        return sum(sample.value for sample in samples if not sample.labels["code"].startswith("2"))

    @contextlib.contextmanager
    def bounded(self, *, objects: int, watches: int = 3) -> Iterator[None]:
        """Assert that the manager retries at a bounded rate within this block, in which its requests fail."""
        before = self.tried()
        yield
        tried = self.tried() - before
        assert tried <= objects * TRIES_PER_OBJECT + watches * TRIES_PER_WATCH

    def restarts(self, kind: str, reason: str) -> float:
        """Return how often the watch of a kind ended for that reason."""
        return self.manager.metrics().value("operator_manager_watch_restarts_total", kind=kind, reason=reason)

    def wait_failed(self, times: int) -> None:
        """Wait until that many more requests have failed."""
        before = self.failed()
        eventually(lambda: self.failed() >= before + times)

    def resources(self) -> Resources:
        """Return the resources that the manager's process holds now."""
        process = Path("/proc", str(self.manager.process.pid))
        return Resources(
            tasks=self.manager.metrics().value("operator_manager_event_loop_tasks"),
            files=sum(1 for _ in (process / "fd").iterdir()),
            threads=sum(1 for _ in (process / "task").iterdir()),
        )

    def assert_unspoilt(self, before: Resources) -> None:
        """Assert that the manager holds no excess resources, stops cleanly, and logs no forgotten task."""

        def no_more() -> None:
            now = self.resources()
            assert now.tasks <= MOST_TASKS
            assert now.files <= before.files + CONNECTIONS_KEPT
            assert now.threads <= before.threads + 1

        eventually(no_more, within=SETTLED_WITHIN)
        assert self.manager.stop() == 0
        odd = [line for line in self.manager.logs() if "text" in line or line.get("logger") == "asyncio"]
        assert not odd
        assert not [line for line in self.manager.logs() if "Traceback" in str(line)]


@contextlib.contextmanager
def on_stage(plane: ControlPlane, folder: Path) -> Iterator[Scene]:
    """Create a scene in a new namespace; stop the manager cleanly at the end, unless the test failed."""
    name = f"scene-{secrets.token_hex(4)}"
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    with (
        FaultProxy(plane.credentials, folder=folder / "proxy") as proxy,
        ManagerProcess(
            proxy.kubeconfig,
            f"--namespaces={name}",
            "--controllers=memcached",
            folder=folder / "manager",
        ) as manager,
    ):
        manager.wait_ready(SETTLED_WITHIN)
        scene = Scene(plane, name, proxy, manager)
        before = scene.resources()
        yield scene
        scene.assert_unspoilt(before)


def _by_name(listed: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in listed["items"]}
