"""A manager process and its API server, over real connections: one test for each class of fault.

`tests/unit/manager_tools/simulation` tests many faults, alone and in combination.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import StartControlPlane
from tests.support.api_access import ApiFailure
from tests.support.api_objects import deployment_path, new_namespace
from tests.support.control_plane import ControlPlane, Feature
from tests.support.crds import DEFINITIONS, install_crds
from tests.support.envtest import BARE
from tests.support.eventually import eventually
from tests.support.fault_proxy import FaultProxy, Match
from tests.support.manager_process import ManagerProcess
from tests.support.memcacheds import assert_converged, memcached, memcached_path

MEMCACHED_KIND = "memcacheds.cache.example.com"
DEPLOYMENT_KIND = "deployments.apps"

# Enough for a busy machine and a long back-off.
SETTLED_WITHIN = 120.0

CONNECTIONS_KEPT = 16
"""Maximum number of additional connections of a manager at the end."""

MOST_TASKS = 40
"""Eight workers and the manager's other tasks are about 30 tasks."""


class Scene(NamedTuple):
    """A manager behind a fault proxy, and a namespace whose objects the test changes without the proxy."""

    plane: ControlPlane
    namespace: str
    proxy: FaultProxy
    manager: ManagerProcess

    def create(self, **sizes: int) -> None:
        bodies = [memcached(name, size) for name, size in sizes.items()]
        self.plane.api.create_many(memcached_path(self.namespace), bodies)

    def scale(self, name: str, size: int) -> None:
        self.plane.api.patch(memcached_path(self.namespace, name), {"spec": {"size": size}})

    def settle(self, **sizes: int) -> None:
        """Wait until children, statuses and the manager's cache match exactly these Memcacheds."""

        def settled() -> None:
            self._collect_garbage()
            for name, size in sizes.items():
                assert_converged(self.plane, self.namespace, [name], size=size)
            metrics = self.manager.metrics()
            for kind in (MEMCACHED_KIND, DEPLOYMENT_KIND):
                assert metrics.value("operator_manager_cache_objects", kind=kind) == len(sizes), kind
            assert self.manager.is_ready(), self.manager.probe("/readyz?verbose")

        eventually(settled, within=SETTLED_WITHIN)

    def _collect_garbage(self) -> None:
        """Delete the Deployments of deleted Memcacheds, because the control plane has no controllers."""
        owners = self.plane.api.get(memcached_path(self.namespace))["items"]
        living = {each["metadata"]["uid"] for each in owners}
        for each in self.plane.api.get(deployment_path(self.namespace))["items"]:
            if living.isdisjoint(owner["uid"] for owner in each["metadata"]["ownerReferences"]):
                self.plane.api.delete(deployment_path(self.namespace, each["metadata"]["name"]))

    def count(self, what: str) -> int:
        """Return the number of open files (`fd`) or threads (`task`) of the manager."""
        return sum(1 for _ in Path(f"/proc/{self.manager.process.pid}/{what}").iterdir())


@contextlib.contextmanager
def on_stage(plane: ControlPlane, folder: Path) -> Iterator[Scene]:
    """Run a scene; then assert that the manager has no leaked resources and stops without errors."""
    name = new_namespace(plane)
    flags = (f"--namespaces={name}", "--controllers=memcached")
    with (
        FaultProxy(plane.credentials, folder=folder / "proxy") as proxy,
        ManagerProcess(proxy.kubeconfig, *flags, folder=folder / "manager") as manager,
    ):
        manager.wait_ready(SETTLED_WITHIN)
        scene = Scene(plane, name, proxy, manager)
        files, threads = scene.count("fd"), scene.count("task")
        yield scene

        def no_more() -> None:
            assert 0 < manager.metrics().value("operator_manager_event_loop_tasks") <= MOST_TASKS
            assert scene.count("fd") <= files + CONNECTIONS_KEPT
            assert scene.count("task") <= threads + 1

        eventually(no_more, within=SETTLED_WITHIN)
        assert manager.stop() == 0
        odd = [line for line in manager.logs() if "text" in line or line.get("logger") == "asyncio"]
        assert odd == []
        assert "Traceback" not in manager.process.output()


@pytest.fixture(scope="module")
def plane(bare_control_plane: ControlPlane) -> ControlPlane:
    install_crds(bare_control_plane)
    return bare_control_plane


@contextlib.contextmanager
def outage(scene: Scene) -> Iterator[None]:
    """Refuse the manager's connections, and make every kind of change that the manager can miss.

    The outage lasts until the end of the `with` block. Then assert that the manager catches up.
    """
    scene.create(gone=1, remade=1, scaled=1, emptied=1)
    scene.settle(gone=1, remade=1, scaled=1, emptied=1)
    scene.proxy.refuse()
    for name in ("gone", "remade"):
        scene.plane.api.delete(memcached_path(scene.namespace, name))
    scene.create(remade=2, added=1)
    scene.scale("scaled", 3)
    scene.plane.api.delete(deployment_path(scene.namespace, "emptied"))
    yield
    scene.proxy.accept()
    scene.settle(remade=2, scaled=3, emptied=1, added=1)
    scene.create(gone=2)
    scene.scale("remade", 0)
    scene.settle(gone=2, remade=0, scaled=3, emptied=1, added=1)


@pytest.mark.contract
def test_manager_catches_up_after_the_api_server_restarts_without_watch_history(
    plane: ControlPlane, tmp_path: Path
):
    plane.require(Feature.PROCESSES)
    with on_stage(plane, tmp_path) as scene, outage(scene):
        plane.kill("apiserver")
        plane.restart("apiserver")


@pytest.mark.contract
def test_manager_catches_up_after_etcd_history_was_compacted(
    own_control_plane: StartControlPlane, tmp_path: Path
):
    plane = own_control_plane(
        parts=BARE, apiserver_flags=["--etcd-compaction-interval=2s", "--watch-cache=false"]
    ).require(Feature.SERVER_FLAGS)
    install_crds(plane)
    with on_stage(plane, tmp_path) as scene:
        with outage(scene):
            seen = plane.api.get(memcached_path(scene.namespace))["metadata"]["resourceVersion"]
            numbers = itertools.count()

            def history_is_gone() -> bool:
                # Compaction removes only old versions, so write a new version first.
                news = {"metadata": {"name": f"news-{next(numbers)}"}}
                plane.api.create(f"/api/v1/namespaces/{scene.namespace}/configmaps", news)
                return has_expired(plane, memcached_path(scene.namespace), seen)

            eventually(history_is_gone, every=0.5)
        for kind in (MEMCACHED_KIND, DEPLOYMENT_KIND):
            # If the newest objects have changed, the manager lists before its watch can expire.
            ends = scene.manager.metrics().select("operator_manager_watch_restarts_total", kind=kind)
            assert sum(each.value for each in ends if each.labels["reason"] in {"expired", "doubted"}), kind


def has_expired(plane: ControlPlane, path: str, version: str) -> bool:
    """Return whether a watch can no longer start at that resource version."""
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
        # The server may keep an open watch of the kind for some time.
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
