from __future__ import annotations

import asyncio

import pytest

from devcluster.controllers import controller
from tests.unit.devcluster.controllers.conftest import Cluster, pod

pytestmark = pytest.mark.virtual_time


def ready(obj: dict) -> tuple[str, str]:
    found = next(each for each in obj["status"]["conditions"] if each["type"] == "Ready")
    return found["status"], found.get("reason", "")


async def test_pod_is_scheduled_and_ready_after_the_delay(slow_cluster: Cluster):
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


async def test_pods_spread_over_three_nodes_with_an_address_each(cluster: Cluster):
    for number in range(30):
        await cluster.settled("pods", pod(f"p{number}"))
    pods = cluster.list("pods")
    nodes = [each["spec"]["nodeName"] for each in pods]
    assert {node: nodes.count(node) for node in nodes} == {"node-0": 10, "node-1": 10, "node-2": 10}
    assert len({each["status"]["podIP"] for each in pods}) == 30


async def test_pod_without_a_fitting_node_says_why_and_goes_on_when_one_fits(cluster: Cluster):
    await cluster.settled("pods", pod(nodeSelector={"disk": "fast"}))
    condition = cluster.get("pods", "p")["status"]["conditions"][0]
    message = (
        "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. no new claims to "
        "deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "False",
        "Unschedulable",
        message,
    )
    assert cluster.events() == [("FailedScheduling", message)]
    await cluster.client.patch("nodes", "", "node-1", {"metadata": {"labels": {"disk": "fast"}}})
    await cluster.settle()
    found = cluster.get("pods", "p")
    assert (found["spec"]["nodeName"], found["status"]["phase"]) == ("node-1", "Running")


@pytest.mark.parametrize(
    ("asked", "reason", "phase", "waiting"),
    [
        ({"annotations": {"devcluster.local/never-ready": "true"}}, "ContainersNotReady", "Running", None),
        ({"image": "db:never-ready"}, "ContainersNotReady", "Running", None),
        ({"image": "db:crash-loop"}, "ContainersNotReady", "Running", "CrashLoopBackOff"),
        (
            {"annotations": {"devcluster.local/crash": "true"}},
            "ContainersNotReady",
            "Running",
            "CrashLoopBackOff",
        ),
        ({"image": "no-such-image:1"}, "ContainersNotReady", "Pending", "ImagePullBackOff"),
    ],
)
async def test_pod_fails_as_asked(
    cluster: Cluster, asked: dict, reason: str, phase: str, waiting: str | None
):
    await cluster.settled("pods", pod(**asked))
    found = cluster.get("pods", "p")
    assert ready(found) == ("False", reason)
    assert found["status"]["phase"] == phase
    state = found["status"]["containerStatuses"][0]["state"]
    assert state.get("waiting", {}).get("reason") == waiting


async def test_pod_that_was_never_ready_becomes_so_when_the_annotation_is_taken_off(cluster: Cluster):
    await cluster.settled("pods", pod(annotations={"devcluster.local/never-ready": "true"}))
    await cluster.patch("pods", "p", {"metadata": {"annotations": {"devcluster.local/never-ready": None}}})
    assert ready(cluster.get("pods", "p")) == ("True", "")


async def test_crashing_container_restarts_ever_more_slowly(cluster: Cluster):
    await cluster.apply("pods", pod(image="db:crash-loop"))

    def restarts() -> int:
        return cluster.get("pods", "p")["status"]["containerStatuses"][0]["restartCount"]

    await cluster.settle(5)
    assert restarts() == 1
    await cluster.settle(10)
    assert restarts() == 2
    await cluster.settle(20)
    assert restarts() == 3
    assert cluster.events()[-1][0] == "BackOff"


async def test_deleted_pod_goes_through_termination(cluster: Cluster):
    await cluster.settled("pods", pod())
    cluster.seen.clear()
    await cluster.delete("pods", "p")
    pods = [obj for plural, _, obj in cluster.seen if plural == "pods"]
    assert [obj and obj["metadata"].get("deletionGracePeriodSeconds") for obj in pods] == [30, None]


async def test_pods_of_before_a_restart_keep_their_addresses(cluster: Cluster):
    await cluster.settled("pods", pod())
    before = cluster.store.version
    first = cluster.get("pods", "p")["status"]["podIP"]
    from devcluster.controllers import Controllers  # noqa: PLC0415

    again = Controllers(cluster.client, cluster.store, cluster.clock, cluster.rng)
    async with again:
        await cluster.settle()
        assert cluster.store.version == before
        await cluster.apply("pods", pod("q"))
        await cluster.settle()
    assert cluster.get("pods", "q")["status"]["podIP"] != first


@pytest.fixture
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a machine so slow that each key pauses for half a second after its work."""
    monkeypatch.setattr(controller, "LONG", 0.0)
    monkeypatch.setattr(controller, "PAUSE_FACTOR", 1e9)


async def test_nodes_are_ready_however_slow_the_machine_was_at_the_start(
    slow_machine: None, cluster: Cluster
):
    await cluster.settle()
    nodes = cluster.list("nodes", "")
    assert [node["metadata"]["name"] for node in nodes] == ["node-0", "node-1", "node-2"]
    assert [node["spec"].get("taints") for node in nodes] == [None] * 3
