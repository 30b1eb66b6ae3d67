"""A process and its API server, over real connections: one test for each class of fault.

The simulation tests many faults, one at a time and together (`tests/unit/manager_tools/simulation`).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import StartControlPlane
from tests.integration.scene import DEPLOYMENT_KIND, MEMCACHED_KIND, Scene, on_stage
from tests.support.api_access import ApiFailure
from tests.support.control_plane import ControlPlane, Feature
from tests.support.crds import DEFINITIONS, install_crds
from tests.support.envtest import BARE
from tests.support.eventually import eventually
from tests.support.fault_proxy import Match
from tests.support.memcacheds import memcached_path


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
    scene.delete_deployment("emptied")


def settle(scene: Scene) -> None:
    """Wait until the manager has handled all changes of `change`."""
    scene.settle(remade=2, scaled=3, emptied=1, added=1)
    scene.create(gone=2)
    scene.scale("remade", 0)
    scene.settle(gone=2, remade=0, scaled=3, emptied=1, added=1)


def test_manager_catches_up_after_an_api_server_outage(scene: Scene):
    prepare(scene)
    scene.create(late=1)
    with scene.bounded(objects=6):
        scene.proxy.refuse()
        change(scene)
        scene.wait_failed(8)
        # The probe ignores a watch that breaks once, but reports one that cannot be reopened.
        eventually(lambda: MEMCACHED_KIND in scene.manager.probe("/readyz/informers")[1])
        assert not scene.manager.is_ready()
        assert scene.manager.probe("/healthz")[0] == 200
    scene.proxy.accept()
    scene.delete("late")
    settle(scene)


@pytest.mark.contract
def test_manager_catches_up_after_api_server_restart_without_history(scene: Scene):
    scene.plane.require(Feature.PROCESSES)
    prepare(scene)
    scene.proxy.refuse()
    change(scene)
    scene.plane.kill("apiserver")
    scene.plane.restart("apiserver")
    scene.proxy.accept()
    settle(scene)


@pytest.mark.contract
def test_manager_catches_up_after_history_was_compacted(own_control_plane: StartControlPlane, tmp_path: Path):
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
            # Only what is written makes versions, and only versions are compacted.
            news = {"metadata": {"name": f"news-{next(numbers)}"}}
            plane.api.create(f"/api/v1/namespaces/{scene.namespace}/configmaps", news)
            return has_expired(plane, memcached_path(scene.namespace), seen)

        eventually(history_is_gone, every=0.5)
        scene.proxy.accept()
        settle(scene)
        for kind in (MEMCACHED_KIND, DEPLOYMENT_KIND):
            # Where the newest objects have changed, the check lists before a watch can expire.
            assert scene.restarts(kind, "expired") + scene.restarts(kind, "doubted") >= 1, kind


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
def test_manager_recovers_when_definition_is_removed_and_installed_again(plane: ControlPlane, tmp_path: Path):
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
