"""A kind that is not served, or not allowed, is waited for; nobody else is disturbed."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from tests.integration import bystander
from tests.integration.scene import MEMCACHED_KIND as CRD
from tests.integration.scene import Scene, on_stage
from tests.support.crds import DEFINITIONS, install_crds
from tests.support.eventually import eventually
from tests.support.fault_proxy import Match
from tests.support.kubeconfig import Credentials
from tests.support.roles import LEADER_ELECTION, MANAGER, Roles

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.control_plane import ControlPlane

PODS = Match(path="/pods", watch=True)
# A kind is tried again after half a minute at most; the rest is for a busy machine.
STARTED_WITHIN = 30.0 + 60.0


@pytest.fixture(scope="module")
def plane(bare_control_plane: ControlPlane) -> ControlPlane:
    return bare_control_plane


def remove_crd(plane: ControlPlane) -> None:
    """Delete the CRD, and with it every Memcached, and wait until the server has forgotten both."""
    path = f"{DEFINITIONS}/{CRD}"
    plane.api.delete(path)
    eventually(lambda: plane.api.find(path) is None)
    eventually(lambda: plane.api.find("/apis/cache.example.com/v1") is None)


def readyz(scene: Scene, check: str = "") -> tuple[int, str]:
    """Status and body of /readyz, or of one check of it."""
    return scene.manager.probe(f"/readyz/{check}" if check else "/readyz?verbose")


def test_a_controller_whose_crd_is_missing_starts_by_itself_once_it_is_installed(
    plane: ControlPlane, tmp_path: Path
) -> None:
    remove_crd(plane)
    with on_stage(plane, plane.credentials, tmp_path, ready=False) as scene:

        def waits() -> None:
            status, text = readyz(scene)
            assert status == 500
            assert f"{CRD}: not served (is the CRD installed?)" in text

        eventually(waits)
        assert readyz(scene, "controller-memcached")[0] == 500
        assert CRD in readyz(scene, "controller-memcached")[1]
        eventually(lambda: readyz(scene, "controller-bystander")[0] == 200)
        assert scene.manager.probe("/healthz")[0] == 200
        discovery = Match(path="/apis/cache.example.com/v1$")
        with scene.bounded(objects=1, watches=1):
            scene.assert_bystander_works("the others go on")
            eventually(lambda: scene.proxy.count(discovery) >= 3)

        install_crds(plane)
        scene.create(first=1)
        scene.manager.wait_ready(STARTED_WITHIN)
        scene.settle(first=1)


@pytest.mark.contract
def test_a_crd_that_is_removed_and_installed_again(plane: ControlPlane, tmp_path: Path) -> None:
    install_crds(plane)
    with on_stage(plane, plane.credentials, tmp_path) as scene:
        scene.create(here=1, gone=1)
        scene.settle(here=1, gone=1)
        remove_crd(plane)
        # The server may leave an open watch of the kind alone for a while.
        scene.proxy.end_watches(Match(path="/memcacheds"))
        eventually(lambda: CRD in readyz(scene, "informers")[1])
        assert scene.manager.probe("/healthz")[0] == 200
        scene.assert_bystander_works("the others go on")

        install_crds(plane)
        scene.create(here=2)
        scene.manager.wait_ready(STARTED_WITHIN)
        scene.settle(here=2)
        scene.create(gone=1)
        scene.settle(here=2, gone=1)


class Worker:
    """A user for one test, who may do nothing yet but what the bystander does."""

    def __init__(self, plane: ControlPlane) -> None:
        name = f"worker-{secrets.token_hex(4)}"
        self.credentials = Credentials.read(plane.user_kubeconfig(name))
        self.roles = Roles(plane, name, "default")
        self.roles.grant(bystander.ROLE)


@pytest.fixture
def worker(plane: ControlPlane) -> Worker:
    install_crds(plane)
    return Worker(plane)


def create_pod(scene: Scene, name: str, owner: str) -> None:
    """A pod as a Deployment's would be, where nobody makes those."""
    path = f"/api/v1/namespaces/{scene.namespace}"
    scene.plane.api.create(f"{path}/serviceaccounts", {"metadata": {"name": "default"}})
    labels = {"app": "memcached", "memcached_cr": owner}
    spec = {"containers": [{"name": "memcached", "image": "memcached"}]}
    scene.plane.api.create(f"{path}/pods", {"metadata": {"name": name, "labels": labels}, "spec": spec})


def nodes(scene: Scene, name: str) -> list[str]:
    """What the status of a Memcached says about its pods."""
    return list(scene.memcacheds()[name]["status"]["nodes"])


def test_a_right_that_is_taken_away_and_given_back(
    plane: ControlPlane, worker: Worker, tmp_path: Path
) -> None:
    worker.roles.grant(*MANAGER)
    with on_stage(plane, worker.credentials, tmp_path) as scene:
        scene.create(steady=1)
        scene.settle(steady=1)
        undisturbed = {watch for watch in scene.proxy.open_watches() if not PODS(watch)}
        worker.roles.grant(*MANAGER, keep=lambda permission: permission[1] != "pods")

        def refused() -> None:
            # The server asks for the right when a watch begins, and learns with a delay that it has gone.
            scene.proxy.end_watches(PODS)
            assert "pods: forbidden" in readyz(scene, "informers")[1]

        eventually(refused)
        assert readyz(scene)[0] == 500
        assert CRD not in readyz(scene, "informers")[1]
        with scene.bounded(objects=2, watches=1):
            scene.scale("steady", 2)
            eventually(lambda: scene.assert_settled(steady=2))
            scene.assert_bystander_works("the others go on")
            create_pod(scene, "unseen", "steady")
            eventually(
                lambda: len([watch for watch in scene.proxy.exchanges(PODS) if watch.status == 403]) > 2
            )
        assert nodes(scene, "steady") == []

        worker.roles.grant(*MANAGER)
        scene.manager.wait_ready(STARTED_WITHIN)
        eventually(lambda: nodes(scene, "steady") == ["unseen"])
        assert {watch for watch in scene.proxy.open_watches() if not PODS(watch)} == undisturbed


def test_rights_that_come_after_the_start(plane: ControlPlane, worker: Worker, tmp_path: Path) -> None:
    with on_stage(plane, worker.credentials, tmp_path, ready=False) as scene:

        def waits() -> None:
            status, text = readyz(scene, "controller-memcached")
            assert status == 500
            for kind in (CRD, "deployments.apps", "pods"):
                assert f"{kind}: forbidden: {kind} is forbidden" in text

        eventually(waits)
        with scene.bounded(objects=1, watches=3):
            scene.create(early=1)
            scene.assert_bystander_works("the others go on")
            eventually(lambda: len([each for each in scene.proxy.exchanges() if each.status == 403]) > 5)
        worker.roles.grant(*MANAGER)
        scene.manager.wait_ready(STARTED_WITHIN)
        scene.settle(early=1)


def test_rights_for_leader_election_that_come_after_the_start(
    plane: ControlPlane, worker: Worker, tmp_path: Path
) -> None:
    worker.roles.grant(*MANAGER)
    flags = ("--leader-elect", "--leader-election-namespace=default")
    with on_stage(plane, worker.credentials, tmp_path, *flags, ready=False) as scene:

        def waits() -> None:
            status, text = readyz(scene, "leader-election")
            assert status == 500
            assert "leases" in text
            assert "forbidden" in text

        eventually(waits)
        scene.create(early=1)
        with scene.bounded(objects=0, watches=4):
            leases = Match(path="/leases")
            eventually(
                lambda: len([each for each in scene.proxy.exchanges(leases) if each.status == 403]) > 4
            )
        assert scene.deployments() == {}
        worker.roles.grant(*LEADER_ELECTION)
        scene.manager.wait_ready(STARTED_WITHIN)
        scene.settle(early=1)
