"""Faults of nodes and container runtimes that an annotation or an image's name switches on."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.api.interfaces import LogOptions
from devcluster.controllers import PodLogs
from devcluster.controllers.container_runtime import ContainerRuntime
from devcluster.controllers.controller import View
from tests.unit.devcluster.controllers.conftest import Cluster, pod

pytestmark = pytest.mark.virtual_time

LOCAL = "devcluster.local/"


def container_of(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.get("pods", "p")["status"]["containerStatuses"][0]
    return found


def ready_of(cluster: Cluster, resource: str, name: str, namespace: str = "x") -> str:
    conditions = cluster.get(resource, name, namespace)["status"]["conditions"]
    return next(each["status"] for each in conditions if each["type"] == "Ready")


@pytest.mark.parametrize(
    "made", [pod(annotations={f"{LOCAL}bad-command": "true"}), pod(image="shop:bad-command")]
)
async def test_pod_with_a_bad_command_reports_the_start_error(cluster: Cluster, made: dict[str, Any]):
    made["spec"]["containers"][0]["command"] = ["/bin/shop", "--open"]
    await cluster.settled("pods", made, seconds=0.5)
    ended = container_of(cluster)["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert ended["message"].endswith('exec: "/bin/shop": executable file not found in $PATH')
    assert ("Failed", f"Error: {ended['message']}") in cluster.events("Pod")
    await cluster.settle(5)
    assert container_of(cluster)["state"]["waiting"]["reason"] == "CrashLoopBackOff"


async def test_pod_out_of_memory_is_killed_after_the_given_seconds(cluster: Cluster):
    await cluster.settled("pods", pod(annotations={f"{LOCAL}out-of-memory": "20"}), seconds=15)
    assert ready_of(cluster, "pods", "p") == "True"
    await cluster.settle(6)
    container = container_of(cluster)
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
async def test_pod_waits_for_a_volume_that_does_not_mount(
    cluster: Cluster, asked: str, volume: dict[str, Any], cause: str
):
    made = pod(annotations={f"{LOCAL}mount-error": asked}, volumes=[{"name": "data", **volume}])
    await cluster.settled("pods", made)
    assert container_of(cluster)["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert cluster.get("pods", "p")["status"]["phase"] == "Pending"
    message = f'MountVolume.SetUp failed for volume "data" : {cause}'
    assert ("FailedMount", message) in cluster.events("Pod")
    await cluster.patch("pods", "p", {"metadata": {"annotations": {f"{LOCAL}mount-error": None}}})
    assert ready_of(cluster, "pods", "p") == "True"


async def test_lost_node_is_unreachable_and_its_pods_are_not_ready_until_it_returns(cluster: Cluster):
    await cluster.settled("pods", pod(nodeName="node-1"))
    assert ready_of(cluster, "pods", "p") == "True"
    await cluster.client.patch("nodes", "", "node-1", {"metadata": {"annotations": {f"{LOCAL}lost": "true"}}})
    await cluster.settle()
    node = cluster.get("nodes", "node-1", "")
    assert {each["reason"] for each in node["status"]["conditions"]} == {"NodeStatusUnknown"}
    assert [(each["key"], each["effect"]) for each in node["spec"]["taints"]] == [
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
    ]
    assert ready_of(cluster, "pods", "p") == "False"
    assert ("NodeNotReady", "Node is not ready") in cluster.events("Pod")
    await cluster.delete("pods", "p")
    assert cluster.get("pods", "p")["metadata"]["deletionTimestamp"]  # no kubelet ends it
    await cluster.client.patch("nodes", "", "node-1", {"metadata": {"annotations": {f"{LOCAL}lost": None}}})
    await cluster.settle()
    assert "taints" not in cluster.get("nodes", "node-1", "")["spec"]
    assert ready_of(cluster, "nodes", "node-1", "") == "True"
    assert cluster.get("pods", "p") is None


async def test_pod_prints_the_log_of_its_annotation(cluster: Cluster):
    await cluster.settled("pods", pod(annotations={f"{LOCAL}log": "first\nsecond\n"}), seconds=30)
    logs = PodLogs(cluster.store, cluster.clock, ContainerRuntime(View(cluster.store)))
    found = [line async for line in logs.stream(cluster.get("pods", "p"), "c")]
    assert found == [b"first\n", b"second\n"]
    following = [line async for line in logs.stream(cluster.get("pods", "p"), "c", LogOptions(tail_lines=1))]
    assert following == [b"second\n"]
