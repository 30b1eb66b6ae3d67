"""The operators in the benchmarks do equal work: same Deployment, same status, and no other writes."""

from __future__ import annotations

import contextlib
import copy
import http
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchmarks.peers import PEERS, LeftOutError, Peer
from benchmarks.peers.building import BUILDS
from benchmarks.program import Program, Setting
from tests.support.api_access import ApiAccess, ApiFailure
from tests.support.api_objects import deployment_path, object_path, pod_path
from tests.support.crds import install_crds
from tests.support.envtest import BARE, EnvtestControlPlane, why_not
from tests.support.eventually import eventually
from tests.support.memcacheds import memcached, memcached_path
from tests.support.metrics import get
from tests.support.ports import PortBlock

pytestmark = pytest.mark.whole

NAMESPACE, NAME = "default", "compared"
LABELS = {"app": "memcached", "memcached_cr": NAME}
MEMCACHED, DEPLOYMENT = memcached_path(NAMESPACE, NAME), deployment_path(NAMESPACE, NAME)
NOW = "2026-01-01T00:00:00Z"
QUIET = 2.0

OURS = next(peer for peer in PEERS if peer.name == "operator-manager")
OTHERS = [peer for peer in PEERS if peer is not OURS and peer.name != "bare"]

Story = list[tuple[str, dict[str, Any], dict[str, Any]]]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EnvtestControlPlane]:
    """Start a real API server without controllers; the tests write pods and the Deployments' status."""
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
    """Run this project's manager; return the observed objects, as `story_of` does."""
    return story_of(OURS.make().program, plane)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("peer", OTHERS, ids=lambda peer: peer.name)
def test_benchmark_operator_leaves_the_same_objects_after_each_event_in_every_framework(
    peer: Peer, plane: EnvtestControlPlane, ours: Story
):
    assert story_of(built(peer), plane) == ours


def built(peer: Peer) -> Program:
    """Build the program again if its sources have changed; skip the test if it was never built."""
    if not any(peer.name.startswith(folder.name) for folder in BUILDS.glob("*")):
        pytest.skip("not built yet: `make bench` builds the peers")
    try:
        return peer.make().program
    except LeftOutError as error:
        pytest.skip(f"{peer.name} is left out: {error}")


def story_of(program: Program, plane: EnvtestControlPlane) -> Story:
    """Run the program; return the Deployment and the Memcached after each event in the Memcached's life."""
    with PortBlock(1) as ports:
        url = f"http://127.0.0.1:{ports[0]}/readyz"
        setting = Setting(health_address=url.removeprefix("http://").removesuffix("/readyz"))
        process = program.daemon(plane.kubeconfig, plane.folder, setting)
        process.start()
        try:
            eventually(lambda: get(url, timeout=5.0)[0] == http.HTTPStatus.OK)
            return [(event, *observed(plane.api, condition)) for event, condition in life(plane.api)]
        finally:
            process.stop()
            print(process.output())  # noqa: T201 -- shown with a failed test
            # This control plane has no garbage collector.
            for path in (MEMCACHED, DEPLOYMENT, pod_path(NAMESPACE, "pod-a")):
                with contextlib.suppress(ApiFailure):
                    plane.api.request("DELETE", path, query={"gracePeriodSeconds": "0"})


def life(api: ApiAccess) -> Iterator[tuple[str, Callable[[dict[str, Any], dict[str, Any]], bool]]]:
    """Change a Memcached, its pods or its Deployment; yield each event and the condition to wait for."""
    api.create(memcached_path(NAMESPACE), memcached(NAME))
    yield "created", lambda _, status: status["observedGeneration"] == 1

    spec = {"automountServiceAccountToken": False, "containers": [container("memcached:1")]}
    for name in ("pod-b", "pod-a"):
        api.create(pod_path(NAMESPACE), {"metadata": {"name": name, "labels": LABELS}, "spec": spec})
    yield "pods came", lambda _, status: len(status["nodes"]) == 2

    api.request("DELETE", pod_path(NAMESPACE, "pod-b"), query={"gracePeriodSeconds": "0"})
    yield "a pod went", lambda _, status: len(status["nodes"]) == 1

    for ready in (1, 3):
        available = {"type": "Available", "status": str(ready == 3), "lastTransitionTime": NOW}
        generation = api.get(DEPLOYMENT)["metadata"]["generation"]
        status = {
            "replicas": 3,
            "readyReplicas": ready,
            "updatedReplicas": 3,
            "observedGeneration": generation,
        }
        conditions = [available | {"lastUpdateTime": NOW}]
        api.patch(f"{DEPLOYMENT}/status", {"status": status | {"conditions": conditions}})
        yield f"{ready} are ready", lambda _, status, ready=ready: status["readyReplicas"] == ready

    foreign = {"replicas": 7, "template": {"spec": {"containers": [container("elsewhere:1")]}}}
    api.patch(DEPLOYMENT, {"spec": foreign}, content_type="application/strategic-merge-patch+json")
    yield "a stranger changed the Deployment", lambda spec, _: is_corrected(spec)

    api.patch(MEMCACHED, {"spec": {"size": 5, "image": "memcached:2"}})
    yield "another size and image", lambda _, status: status["observedGeneration"] == 2


def is_corrected(spec: dict[str, Any]) -> bool:
    image: str = spec["template"]["spec"]["containers"][0]["image"]
    return spec["replicas"] == 3 and image.startswith("memcached:")


def observed(
    api: ApiAccess, condition: Callable[[dict[str, Any], dict[str, Any]], bool]
) -> list[dict[str, Any]]:
    """Return the Deployment and the Memcached when `condition` is true and nothing changes any more."""

    def look() -> list[dict[str, Any]]:
        return [api.get(DEPLOYMENT), api.get(MEMCACHED)]

    def settled() -> list[dict[str, Any]]:
        before = look()
        assert condition(before[0]["spec"], before[1]["status"]), before
        time.sleep(0.5)
        assert look() == before
        return before

    # Wait for writes that are in flight; after that, the program must not write.
    before = eventually(settled)
    time.sleep(QUIET)
    assert look() == before, "a write although nothing changed"
    return [without_times(each) for each in before]


def container(image: str) -> dict[str, Any]:
    return {"name": "memcached", "image": image}


def without_times(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the object without UIDs, versions, times and managedFields, which vary."""
    obj = copy.deepcopy(obj)
    kept = ("name", "namespace", "labels", "ownerReferences", "generation", "annotations", "finalizers")
    obj["metadata"] = {key: value for key, value in obj["metadata"].items() if key in kept}
    for owner in obj["metadata"].get("ownerReferences", ()):
        del owner["uid"]
    for condition in obj.get("status", {}).get("conditions", ()):
        condition.pop("lastTransitionTime")
    return obj
