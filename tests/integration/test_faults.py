"""A process and its API server, over real connections: one test for each class of fault.

The simulation tests many faults, one at a time and together (`tests/unit/manager_tools/simulation`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import StartControlPlane
from tests.support.api_access import ApiFailure
from tests.support.api_objects import deployment_path
from tests.support.control_plane import ControlPlane, Feature
from tests.support.crds import DEFINITIONS, install_crds
from tests.support.envtest import BARE
from tests.support.eventually import eventually
from tests.support.fault_proxy import FaultProxy, Match
from tests.support.manager_process import ManagerProcess
from tests.support.memcacheds import memcached, memcached_path

MEMCACHED_KIND = "memcacheds.cache.example.com"
DEPLOYMENT_KIND = "deployments.apps"

# A busy machine takes its time, and a back-off may have grown meanwhile.
SETTLED_WITHIN = 120.0

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

    def create(self, **sizes: int) -> None:
        bodies = [memcached(name, size) for name, size in sizes.items()]
        self.plane.api.create_many(memcached_path(self.namespace), bodies)

    def scale(self, name: str, size: int) -> None:
        self.plane.api.patch(memcached_path(self.namespace, name), {"spec": {"size": size}})

    def delete(self, name: str) -> None:
        """Delete a Memcached, but not its Deployment."""
        self.plane.api.delete(memcached_path(self.namespace, name))

    def listed(self, path: str) -> dict[str, dict[str, Any]]:
        return {each["metadata"]["name"]: each for each in self.plane.api.get(path)["items"]}

    def settle(self, *, within: float = SETTLED_WITHIN, **sizes: int) -> None:
        """Wait until exactly these Memcacheds exist, and children and caches match their specs."""
        eventually(lambda: self.assert_settled(**sizes), within=within)
        eventually(lambda: self._assert_no_ghosts(len(sizes)), within=within)

    def assert_settled(self, **sizes: int) -> None:
        """Assert that exactly these Memcacheds exist, and that everything matches their specs."""
        memcacheds = self.listed(memcached_path(self.namespace))
        self._collect_garbage(memcacheds)
        deployments = self.listed(deployment_path(self.namespace))
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
        for name, deployment in self.listed(deployment_path(self.namespace)).items():
            owners = {owner["uid"] for owner in deployment["metadata"].get("ownerReferences", ())}
            if owners and not owners & living:
                self.plane.api.delete(deployment_path(self.namespace, name))

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
    """Create a scene in a new namespace; stop the manager at the end, unless the test failed."""
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


@pytest.fixture(scope="module")
def plane(bare_control_plane: ControlPlane) -> ControlPlane:
    install_crds(bare_control_plane)
    return bare_control_plane


@pytest.fixture
def scene(plane: ControlPlane, tmp_path: Path) -> Iterator[Scene]:
    with on_stage(plane, tmp_path) as scene:
        yield scene


def prepare(scene: Scene) -> None:
    """Create the objects that `change` changes."""
    scene.create(gone=1, remade=1, scaled=1, emptied=1)
    scene.settle(gone=1, remade=1, scaled=1, emptied=1)


def change(scene: Scene) -> None:
    """Make every kind of change that a manager can miss."""
    scene.delete("gone")
    scene.delete("remade")
    scene.create(remade=2, added=1)
    scene.scale("scaled", 3)
    scene.plane.api.delete(deployment_path(scene.namespace, "emptied"))


def settle(scene: Scene) -> None:
    """Wait until the manager has handled all changes of `change`."""
    scene.settle(remade=2, scaled=3, emptied=1, added=1)
    scene.create(gone=2)
    scene.scale("remade", 0)
    scene.settle(gone=2, remade=0, scaled=3, emptied=1, added=1)


@pytest.mark.contract
def test_manager_catches_up_after_the_api_server_restarts_without_watch_history(scene: Scene):
    scene.plane.require(Feature.PROCESSES)
    prepare(scene)
    scene.proxy.refuse()
    change(scene)
    scene.plane.kill("apiserver")
    scene.plane.restart("apiserver")
    scene.proxy.accept()
    settle(scene)


@pytest.mark.contract
def test_manager_catches_up_after_etcd_history_was_compacted(
    own_control_plane: StartControlPlane, tmp_path: Path
):
    plane = own_control_plane(
        parts=BARE, apiserver_flags=["--etcd-compaction-interval=2s", "--watch-cache=false"]
    ).require(Feature.SERVER_FLAGS)
    install_crds(plane)
    with on_stage(plane, tmp_path) as scene:
        prepare(scene)
        seen = plane.api.get(memcached_path(scene.namespace))["metadata"]["resourceVersion"]
        scene.proxy.refuse()
        change(scene)
        numbers = itertools.count()

        def history_is_gone() -> bool:
            # Compaction removes only versions, and every version needs a write.
            news = {"metadata": {"name": f"news-{next(numbers)}"}}
            plane.api.create(f"/api/v1/namespaces/{scene.namespace}/configmaps", news)
            return has_expired(plane, memcached_path(scene.namespace), seen)

        eventually(history_is_gone, every=0.5)
        scene.proxy.accept()
        settle(scene)
        for kind in (MEMCACHED_KIND, DEPLOYMENT_KIND):
            # Where the newest objects have changed, the check lists before a watch can expire.
            ends = scene.manager.metrics().select("operator_manager_watch_restarts_total", kind=kind)
            assert sum(each.value for each in ends if each.labels["reason"] in {"expired", "doubted"}), kind


def has_expired(plane: ControlPlane, path: str, version: str) -> bool:
    """Return whether a watch can no longer begin at that version."""
    query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "1"}
    try:
        text = plane.api.request("GET", path, query=query)
    except ApiFailure as failure:
        return failure.status == 410
    first = json.loads(text.splitlines()[0]) if text.strip() else {}
    return bool(first.get("type") == "ERROR" and first["object"]["code"] == 410)


@pytest.mark.contract
def test_manager_recovers_when_a_crd_is_removed_and_installed_again(plane: ControlPlane, tmp_path: Path):
    with on_stage(plane, tmp_path) as scene:
        scene.create(here=1, gone=1)
        scene.settle(here=1, gone=1)
        path = f"{DEFINITIONS}/{MEMCACHED_KIND}"
        plane.api.delete(path)
        eventually(lambda: plane.api.find(path) is None)
        eventually(lambda: plane.api.find("/apis/cache.example.com/v1") is None)
        # The server may leave an open watch of the kind alone for a while.
        scene.proxy.end_watches(Match(path="/memcacheds"))
        not_served = f"{MEMCACHED_KIND}: not served (is the CRD installed?)"
        eventually(lambda: not_served in scene.manager.probe("/readyz/informers")[1])
        assert not scene.manager.is_ready()
        assert scene.manager.probe("/healthz")[0] == 200

        install_crds(plane)
        scene.create(here=2)
        scene.settle(here=2)
        scene.create(gone=1)
        scene.settle(here=2, gone=1)
