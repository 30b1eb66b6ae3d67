"""The operators that the benchmarks compare do the same work: same Deployment, same status, and no more."""

from __future__ import annotations

import contextlib
import copy
import http
import time
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.peers import PEERS, LeftOutError, Peer
from benchmarks.peers.building import BUILDS
from benchmarks.program import Program, Setting
from tests.support.api_objects import deployment_path, object_path, pod_path
from tests.support.crds import install_crds
from tests.support.daemon import wait_until
from tests.support.envtest import BARE, EnvtestControlPlane, why_not
from tests.support.eventually import eventually
from tests.support.http_get import get
from tests.support.memcacheds import memcached, memcached_path
from tests.support.ports import PortBlock

pytestmark = pytest.mark.whole

NAMESPACE, NAME = "default", "compared"
LABELS = {"app": "memcached", "memcached_cr": NAME}
READY_WITHIN = 90.0
QUIET = 2.0

OURS = next(peer for peer in PEERS if peer.name == "operator-manager")
OTHERS = [peer for peer in PEERS if peer is not OURS and peer.name != "bare"]

Story = list[tuple[str, dict[str, Any], dict[str, Any]]]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EnvtestControlPlane]:
    """Start a real API server without controllers: the tests write pods and the Deployments' status."""
    problem = why_not()
    if problem:
        pytest.skip(problem)
    with EnvtestControlPlane(tmp_path_factory.mktemp("peers"), parts=BARE) as plane:
        install_crds(plane)
        account = {"metadata": {"name": "default"}}
        plane.api.create(object_path("v1", NAMESPACE, "serviceaccounts"), account)
        yield plane


@pytest.fixture(scope="module")
def ours(plane: EnvtestControlPlane) -> Story:
    """Return the story of this project's manager."""
    return story_of(OURS.make().program, plane)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("peer", OTHERS, ids=lambda peer: peer.name)
def test_benchmark_peer_does_what_the_manager_does(peer: Peer, plane: EnvtestControlPlane, ours: Story):
    assert story_of(built(peer), plane) == ours


def built(peer: Peer) -> Program:
    """Built again when its sources have changed, but not for the first time: that may take minutes."""
    if not any(peer.name.startswith(folder.name) for folder in BUILDS.glob("*")):
        pytest.skip("not built yet: `make bench` builds the peers")
    try:
        return peer.make().program
    except LeftOutError as error:
        pytest.skip(f"{peer.name} is left out: {error}")


def story_of(program: Program, plane: EnvtestControlPlane) -> Story:
    """Return the observations after each event in a Memcached's life while `program` runs."""
    with PortBlock(1) as ports:
        address = f"127.0.0.1:{ports[0]}"
        process = program.daemon(plane.kubeconfig, plane.folder, Setting(health_address=address))
        process.start()
        try:
            wait_until(process, lambda: is_ready(address), timeout=READY_WITHIN, what="readiness")
            return Recording(plane).story()
        finally:
            process.stop()
            print(process.output())  # noqa: T201 -- shown with a failed test
            clear(plane)


def is_ready(address: str) -> bool:
    with contextlib.suppress(OSError):
        return get(f"http://{address}/readyz", timeout=5.0)[0] == http.HTTPStatus.OK
    return False


class Recording:
    """Recorder of one Memcached's life."""

    def __init__(self, plane: EnvtestControlPlane) -> None:
        self.api = plane.api
        self.recorded: Story = []

    def story(self) -> Story:
        """From its creation through the changes of pods, Deployment and spec."""
        self.api.create(memcached_path(NAMESPACE), memcached(NAME))
        self.record("created", lambda status: status["observedGeneration"] == 1)

        for name in ("pod-b", "pod-a"):
            self.api.create(pod_path(NAMESPACE), pod(name))
        self.record("pods came", lambda status: len(status["nodes"]) == 2)

        self.api.request("DELETE", pod_path(NAMESPACE, "pod-b"), query={"gracePeriodSeconds": "0"})
        self.record("a pod went", lambda status: len(status["nodes"]) == 1)

        self.set_deployment_status({"replicas": 3, "readyReplicas": 1, "updatedReplicas": 3}, available=False)
        self.record("one is ready", lambda status: status["readyReplicas"] == 1)

        self.set_deployment_status({"replicas": 3, "readyReplicas": 3, "updatedReplicas": 3}, available=True)
        self.record("all are ready", lambda status: status["readyReplicas"] == 3)

        foreign = {"replicas": 7, "template": {"spec": {"containers": [container("elsewhere:1")]}}}
        self.patch(deployment_path(NAMESPACE, NAME), {"spec": foreign})
        self.record("a stranger changed the Deployment", self.is_corrected)

        self.patch(memcached_path(NAMESPACE, NAME), {"spec": {"size": 5, "image": "memcached:2"}})
        self.record("another size and image", lambda status: status["observedGeneration"] == 2)
        return self.recorded

    def record(self, what: str, condition: Any) -> None:
        """Once `condition` holds and nothing changes any more."""

        def seen() -> tuple[dict[str, Any], dict[str, Any]]:
            deployment, status = self.look()
            assert condition(status["status"]), status
            return deployment, status

        eventually(seen)
        # The last writes may still be on their way; after this, the program must not write.
        before = eventually(self.settled)
        time.sleep(QUIET)
        assert self.look() == before, f"{what}: a write at rest"
        deployment, status = before
        self.recorded.append((what, without_times(deployment), without_times(status)))

    def settled(self) -> tuple[dict[str, Any], dict[str, Any]]:
        before = self.look()
        time.sleep(0.5)
        assert self.look() == before
        return before

    def look(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the Deployment and the Memcached, as the server has them."""
        return (
            self.api.get(deployment_path(NAMESPACE, NAME)),
            self.api.get(memcached_path(NAMESPACE, NAME)),
        )

    def is_corrected(self, _: dict[str, Any]) -> bool:
        spec = self.look()[0]["spec"]
        found = spec["template"]["spec"]["containers"][0]
        return bool(spec["replicas"] == 3 and found["image"].startswith("memcached:"))

    def set_deployment_status(self, counts: dict[str, int], *, available: bool) -> None:
        """Set the Deployment's status as its controller would."""
        deployment = self.look()[0]
        now = "2026-01-01T00:00:00Z"
        conditions = [
            {"type": "Available", "status": str(available), "lastTransitionTime": now, "lastUpdateTime": now}
        ]
        generation = {"observedGeneration": deployment["metadata"]["generation"]}
        path = f"{deployment_path(NAMESPACE, NAME)}/status"
        self.patch(path, {"status": {**counts, **generation, "conditions": conditions}})

    def patch(self, path: str, change: dict[str, Any]) -> None:
        content_type = "application/merge-patch+json"
        if "template" in str(change):
            content_type = "application/strategic-merge-patch+json"
        self.api.request("PATCH", path, body=change, content_type=content_type)


def container(image: str) -> dict[str, Any]:
    return {"name": "memcached", "image": image}


def pod(name: str) -> dict[str, Any]:
    spec = {"automountServiceAccountToken": False, "containers": [container("memcached:1")]}
    return {"metadata": {"name": name, "labels": LABELS}, "spec": spec}


def clear(plane: EnvtestControlPlane) -> None:
    """Delete the objects, because this control plane has no garbage collector."""
    for path in (
        memcached_path(NAMESPACE, NAME),
        deployment_path(NAMESPACE, NAME),
        pod_path(NAMESPACE, "pod-a"),
    ):
        if plane.api.find(path) is not None:
            plane.api.request("DELETE", path, query={"gracePeriodSeconds": "0"})


def without_times(obj: dict[str, Any]) -> dict[str, Any]:
    """Without what differs from run to run: identities, versions, times, and who wrote which field."""
    obj = copy.deepcopy(obj)
    kept = ("name", "namespace", "labels", "ownerReferences", "generation", "annotations", "finalizers")
    obj["metadata"] = {key: value for key, value in obj["metadata"].items() if key in kept}
    for owner in obj["metadata"].get("ownerReferences", ()):
        del owner["uid"]
    for condition in obj.get("status", {}).get("conditions", ()):
        condition.pop("lastTransitionTime")
    return obj
