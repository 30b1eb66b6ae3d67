from __future__ import annotations

import asyncio
from typing import Any

import pytest

from devcluster.controllers import Controllers
from devcluster.controllers.controller import WorkQueue
from tests.unit.devcluster.controllers.conftest import Cluster, pod, started

pytestmark = pytest.mark.virtual_time


async def test_pod_is_scheduled_and_becomes_ready_after_the_ready_delay(slow_cluster: Cluster):
    cluster = slow_cluster
    await cluster.apply("pods", pod())
    await asyncio.sleep(0.9)
    waiting = cluster.get("pods", "p")
    assert waiting["spec"]["nodeName"] == "node-0"
    assert waiting["status"]["phase"] == "Pending"
    await asyncio.sleep(0.2)
    running = cluster.get("pods", "p")
    status = running["status"]
    assert status["phase"] == "Running"
    assert [(each["type"], each["status"]) for each in status["conditions"]] == [
        ("Initialized", "True"),
        ("ContainersReady", "True"),
        ("Ready", "True"),
        ("PodScheduled", "True"),
    ]
    (container,) = status["containerStatuses"]
    assert (container["ready"], container["started"], container["restartCount"]) == (True, True, 0)
    assert list(container["state"]) == ["running"]
    assert status["podIPs"] == [{"ip": status["podIP"]}]
    assert status["podIP"].startswith("10.244.")
    assert cluster.events() == [("Scheduled", "Successfully assigned x/p to node-0")]


async def test_pods_are_spread_over_three_nodes_with_distinct_addresses(cluster: Cluster):
    for number in range(30):
        await cluster.settled("pods", pod(f"p{number}"))
    pods = cluster.list("pods")
    nodes = [each["spec"]["nodeName"] for each in pods]
    assert {node: nodes.count(node) for node in nodes} == {"node-0": 10, "node-1": 10, "node-2": 10}
    assert len({each["status"]["podIP"] for each in pods}) == 30


async def test_unschedulable_pod_reports_the_reason_and_starts_when_a_node_matches(cluster: Cluster):
    await cluster.settled("pods", pod(nodeSelector={"disk": "fast"}))
    message = (
        "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. no new claims to "
        "deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )
    assert cluster.condition("PodScheduled") == ("False", "Unschedulable", message)
    assert cluster.events() == [("FailedScheduling", message)]
    await cluster.client.patch("nodes", "", "node-1", {"metadata": {"labels": {"disk": "fast"}}})
    await cluster.settle()
    found = cluster.get("pods", "p")
    assert (found["spec"]["nodeName"], found["status"]["phase"]) == ("node-1", "Running")


@pytest.mark.parametrize(
    ("asked", "phase", "waiting"),
    [
        ({"annotations": {"devcluster.local/never-ready": "true"}}, "Running", None),
        ({"image": "db:never-ready"}, "Running", None),
        ({"image": "db:crash-loop"}, "Running", "CrashLoopBackOff"),
        ({"annotations": {"devcluster.local/crash": "true"}}, "Running", "CrashLoopBackOff"),
        ({"image": "no-such-image:1"}, "Pending", "ImagePullBackOff"),
    ],
)
async def test_pod_shows_the_failure_that_its_image_or_annotation_requests(
    cluster: Cluster, asked: dict, phase: str, waiting: str | None
):
    await cluster.settled("pods", pod(**asked))
    status = cluster.status()
    assert (status["phase"], cluster.condition("Ready")[:2]) == (phase, ("False", "ContainersNotReady"))
    assert status["containerStatuses"][0]["state"].get("waiting", {}).get("reason") == waiting
    if waiting is None and "annotations" in asked:
        await cluster.patch(
            "pods", "p", {"metadata": {"annotations": {"devcluster.local/never-ready": None}}}
        )
        assert cluster.condition("Ready")[0] == "True"


def stopping(seconds: str, grace: int = 30) -> dict:
    """Return a pod with this grace period whose containers take this many seconds to stop."""
    annotations = {"devcluster.local/stop-time": seconds}
    return pod(annotations=annotations, terminationGracePeriodSeconds=grace)


@pytest.mark.parametrize(
    ("stop_time", "grace", "seconds"), [("5", 30, 5), ("600", 20, 20)], ids=["by itself", "at the deadline"]
)
async def test_deleted_pod_is_terminating_until_its_containers_have_stopped(
    cluster: Cluster, stop_time: str, grace: int, seconds: int
):
    await cluster.settled("pods", stopping(stop_time, grace))
    await cluster.delete("pods", "p", seconds=seconds - 1)
    assert cluster.get("pods", "p")["metadata"]["deletionGracePeriodSeconds"] == grace
    assert ("Killing", "Stopping container c") in cluster.events()
    await asyncio.sleep(1.1)
    assert cluster.get("pods", "p") is None


@pytest.mark.parametrize(("grace", "seconds"), [(30, 10), (4, 4)])
async def test_pod_deletion_takes_the_shorter_of_stop_delay_and_grace_period(grace: int, seconds: int):
    async with started(0.0, pod_stop_delay=10.0) as cluster:
        await cluster.settled("pods", pod(terminationGracePeriodSeconds=grace))
        await cluster.delete("pods", "p", seconds=seconds - 0.5)
        assert cluster.get("pods", "p")["metadata"]["deletionTimestamp"]
        await asyncio.sleep(1)
        assert cluster.get("pods", "p") is None


async def test_second_deletion_with_a_shorter_grace_period_removes_the_pod_earlier(cluster: Cluster):
    await cluster.settled("pods", stopping("600"))
    await cluster.delete("pods", "p", seconds=1)
    await cluster.delete("pods", "p", seconds=1, grace=1)
    assert cluster.get("pods", "p") is None


async def test_failing_init_container_prevents_the_start_of_later_containers(cluster: Cluster):
    init = [{"name": "i", "image": "migrate:crash-loop"}]
    await cluster.settled("pods", pod(initContainers=init), 60)
    status = cluster.status()
    assert status["phase"] == "Pending"
    assert cluster.condition("Initialized")[:2] == ("False", "ContainersNotInitialized")
    (failing,), (main,) = status["initContainerStatuses"], status["containerStatuses"]
    assert failing["restartCount"] > 1
    assert failing["lastState"]["terminated"]["exitCode"] == 1
    assert main["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert any(reason == "BackOff" for reason, _ in cluster.events())
    await cluster.settled("pods", pod("once", initContainers=init, restartPolicy="Never"))
    assert cluster.get("pods", "once")["status"]["phase"] == "Failed"


async def test_init_containers_wait_for_their_image_and_run_in_order(cluster: Cluster):
    init = [{"name": "i", "image": "a"}, {"name": "j", "image": "no-such-image"}, {"name": "k", "image": "b"}]
    await cluster.settled("pods", pod(initContainers=init))
    states = [each["state"] for each in cluster.status()["initContainerStatuses"]]
    assert list(states[0]) == ["terminated"]
    assert states[1]["waiting"]["reason"] in {"ErrImagePull", "ImagePullBackOff"}
    assert states[2]["waiting"]["reason"] == "PodInitializing"


async def test_sidecar_init_container_keeps_running_beside_the_main_containers(cluster: Cluster):
    init = [{"name": "i", "image": "a", "restartPolicy": "Always"}, {"name": "j", "image": "b"}]
    await cluster.settled("pods", pod(initContainers=init))
    assert cluster.condition("Ready")[0] == "True"
    states = [each["state"] for each in cluster.status()["initContainerStatuses"]]
    assert list(map(list, states)) == [["running"], ["terminated"]]


async def test_controllers_started_a_second_time_write_nothing_and_reuse_no_pod_address():
    async with started(0.0, controllers=False) as cluster:
        parts = cluster.client, cluster.store, cluster.clock, cluster.rng
        async with Controllers(*parts):
            await cluster.settled("pods", pod(nodeName="node-0"))
        before = cluster.store.version
        async with Controllers(*parts):
            await cluster.settle()
            assert cluster.store.version == before
            await cluster.settled("pods", pod("q", nodeName="node-0"))
        assert cluster.status("q")["podIP"] != cluster.status()["podIP"]


@pytest.fixture
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each controller wait for half a second before it handles the same key again."""
    done = WorkQueue.done
    monkeypatch.setattr(WorkQueue, "done", lambda queue, key, **_: done(queue, key, took=1.0))


async def test_nodes_become_ready_even_when_controllers_are_slow(slow_machine: None, cluster: Cluster):
    await cluster.settle()
    nodes = {node["metadata"]["name"]: node["spec"].get("taints") for node in cluster.list("nodes", "")}
    assert nodes == dict.fromkeys(("node-0", "node-1", "node-2"))


LOCAL = "devcluster.local/"


@pytest.mark.parametrize(
    "made", [pod(annotations={f"{LOCAL}bad-command": "true"}), pod(image="shop:bad-command")]
)
async def test_pod_with_a_missing_program_reports_the_start_error(cluster: Cluster, made: dict[str, Any]):
    made["spec"]["containers"][0]["command"] = ["/bin/shop", "--open"]
    await cluster.settled("pods", made, seconds=0.5)
    ended = cluster.container()["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert ended["message"].endswith('exec: "/bin/shop": executable file not found in $PATH')
    assert ("Failed", f"Error: {ended['message']}") in cluster.events("Pod")
    await cluster.settle(5)
    assert cluster.container()["state"]["waiting"]["reason"] == "CrashLoopBackOff"


async def test_pod_is_oom_killed_after_the_seconds_in_its_annotation(cluster: Cluster):
    await cluster.settled("pods", pod(annotations={f"{LOCAL}out-of-memory": "20"}), seconds=15)
    assert cluster.condition("Ready")[0] == "True"
    await cluster.settle(6)
    container = cluster.container()
    ended = container["state"].get("terminated") or container["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


@pytest.mark.parametrize(
    ("asked", "volume", "cause"),
    [
        ("true", {"configMap": {"name": "settings"}}, 'configmap "settings" not found'),
        ("data", {"secret": {"secretName": "keys"}}, 'secret "keys" not found'),
        ("data", {"emptyDir": {}}, "rpc error: code = Internal desc = mount failed: exit status 32"),
    ],
)
async def test_pod_waits_for_its_volumes_until_its_mount_error_annotation_is_removed(
    cluster: Cluster, asked: str, volume: dict[str, Any], cause: str
):
    made = pod(annotations={f"{LOCAL}mount-error": asked}, volumes=[{"name": "data", **volume}])
    await cluster.settled("pods", made)
    assert cluster.container()["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert cluster.status()["phase"] == "Pending"
    message = f'MountVolume.SetUp failed for volume "data" : {cause}'
    assert ("FailedMount", message) in cluster.events("Pod")
    await cluster.patch("pods", "p", {"metadata": {"annotations": {f"{LOCAL}mount-error": None}}})
    assert cluster.condition("Ready")[0] == "True"


async def test_lost_node_is_unreachable_and_its_pods_are_unready_until_it_returns(cluster: Cluster):
    async def lose(value: str | None) -> None:
        patch = {"metadata": {"annotations": {f"{LOCAL}lost": value}}}
        await cluster.client.patch("nodes", "", "node-1", patch)
        await cluster.settle()

    await cluster.settled("pods", pod(nodeName="node-1"))
    assert cluster.condition("Ready")[0] == "True"
    await lose("true")
    node = cluster.get("nodes", "node-1", "")
    assert {each["reason"] for each in node["status"]["conditions"]} == {"NodeStatusUnknown"}
    assert [(each["key"], each["effect"]) for each in node["spec"]["taints"]] == [
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
    ]
    assert cluster.condition("Ready")[0] == "False"
    assert ("NodeNotReady", "Node is not ready") in cluster.events("Pod")
    await cluster.delete("pods", "p")
    assert cluster.get("pods", "p")["metadata"]["deletionTimestamp"]  # no kubelet can stop it
    await lose(None)
    assert "taints" not in cluster.get("nodes", "node-1", "")["spec"]
    assert cluster.condition("Ready", "nodes", "node-1", "")[0] == "True"
    assert cluster.get("pods", "p") is None


async def test_node_keeps_its_patched_capacity_when_it_returns_after_a_loss(cluster: Cluster):
    capacity = {"cpu": "2", "pods": "110"}
    patch = {"status": {"capacity": {"memory": None, **capacity}}}
    await cluster.client.patch("nodes", "", "node-1", patch, subresource="status")
    before = cluster.get("nodes", "node-1", "")["status"]["capacity"]
    assert before.items() >= capacity.items()
    for value in ("true", None):
        patch = {"metadata": {"annotations": {f"{LOCAL}lost": value}}}
        await cluster.client.patch("nodes", "", "node-1", patch)
        await cluster.settle()
    assert cluster.condition("Ready", "nodes", "node-1", "")[0] == "True"
    assert cluster.get("nodes", "node-1", "")["status"]["capacity"] == before
