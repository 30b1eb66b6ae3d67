from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.devcluster.controllers.conftest import Cluster, template

pytestmark = pytest.mark.virtual_time


def stateful_set(**spec: Any) -> dict:
    fixed = {"serviceName": "s", "selector": {"matchLabels": {"app": "s"}}, "template": template("s")}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "s"},
        "spec": {"replicas": 3, **fixed, **spec},
    }


NEW_IMAGE = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}}}


def images(cluster: Cluster) -> list[str]:
    return [pod["spec"]["containers"][0]["image"] for pod in cluster.list("pods")]


def job(image: str = "nginx:1", **spec: Any) -> dict:
    counts = {"backoffLimit": 6, "parallelism": 1, "completions": 1}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": template("j", image, restartPolicy="Never"), **counts, **spec},
    }


def changes(cluster: Cluster) -> list[str]:
    """Return the names of created (`+`) and deleted (`-`) pods, in order."""
    order, alive = [], set()
    for kind, name, obj in cluster.seen:
        if kind != "pods":
            continue
        if obj is None:
            order.append(f"-{name}")
            alive.discard(name)
        elif name not in alive:
            order.append(f"+{name}")
            alive.add(name)
    return order


async def test_stateful_set_scales_up_in_order_and_down_in_reverse(slow_cluster: Cluster):
    cluster = slow_cluster
    await cluster.apply("statefulsets.apps", stateful_set())
    await asyncio.sleep(0.5)
    assert [pod["metadata"]["name"] for pod in cluster.list("pods")] == ["s-0"]
    await cluster.settle(10)
    assert changes(cluster) == ["+s-0", "+s-1", "+s-2"]
    first = cluster.get("pods", "s-0")
    status = cluster.get("statefulsets.apps", "s")["status"]
    assert first["metadata"]["labels"] == {
        "app": "s",
        "apps.kubernetes.io/pod-index": "0",
        "controller-revision-hash": status["updateRevision"],
        "statefulset.kubernetes.io/pod-name": "s-0",
    }
    assert (first["spec"]["hostname"], first["spec"]["subdomain"]) == ("s-0", "s")
    assert (status["readyReplicas"], status["currentRevision"]) == (3, status["updateRevision"])
    cluster.seen.clear()
    await cluster.patch("statefulsets.apps", "s", {"spec": {"replicas": 1}}, 10)
    assert [each for each in changes(cluster) if each[0] == "-"] == ["-s-2", "-s-1"]
    assert cluster.events("StatefulSet")[-2:] == [
        ("SuccessfulDelete", "Delete Pod s-2 in StatefulSet s successful"),
        ("SuccessfulDelete", "Delete Pod s-1 in StatefulSet s successful"),
    ]


async def test_daemon_set_runs_a_pod_per_node_and_updates_pods_one_by_one(slow_cluster: Cluster):
    cluster = slow_cluster
    spec = {"selector": {"matchLabels": {"app": "ds"}}, "template": template("ds")}
    daemon_set = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "ds"}, "spec": spec}
    await cluster.settled("daemonsets.apps", daemon_set)
    assert {pod["spec"]["nodeName"] for pod in cluster.list("pods")} == {"node-0", "node-1", "node-2"}
    assert cluster.get("daemonsets.apps", "ds")["status"] == {
        "currentNumberScheduled": 3,
        "desiredNumberScheduled": 3,
        "numberAvailable": 3,
        "numberMisscheduled": 0,
        "numberReady": 3,
        "observedGeneration": 1,
        "updatedNumberScheduled": 3,
    }
    cluster.seen.clear()
    await cluster.patch("daemonsets.apps", "ds", NEW_IMAGE, 20)
    available = [
        obj["status"].get("numberAvailable", 0) for kind, _, obj in cluster.seen if kind == "daemonsets"
    ]
    assert min(available) == 2
    assert set(images(cluster)) == {"nginx:2"}
    before = cluster.store.version
    await asyncio.sleep(10_000)
    assert cluster.store.version == before


async def test_job_fails_when_more_pods_fail_than_its_backoff_limit_allows(cluster: Cluster):
    await cluster.settled("jobs.batch", job("x:crash-loop", backoffLimit=1), 60)
    status = cluster.get("jobs.batch", "j")["status"]
    assert status["failed"] == 2
    assert [(each["type"], each["reason"]) for each in status["conditions"]] == [
        ("FailureTarget", "BackoffLimitExceeded"),
        ("Failed", "BackoffLimitExceeded"),
    ]


@pytest.mark.parametrize("plural", ["statefulsets", "daemonsets"])
async def test_orphaned_controller_revision_is_adopted_when_the_same_set_is_created_again(
    cluster: Cluster, plural: str
):
    resource = f"{plural}.apps"
    for _ in range(2):
        made = stateful_set()
        if plural == "daemonsets":
            made |= {"kind": "DaemonSet", "spec": {"selector": {"matchLabels": {"app": "s"}}}}
            made["spec"]["template"] = template("s")
        await cluster.settled(resource, made, 20)
        owner = cluster.get(resource, "s")
        assert owner["status"]["observedGeneration"] == 1
        (revision,) = cluster.list("controllerrevisions.apps")
        references = revision["metadata"]["ownerReferences"]
        assert [each["uid"] for each in references] == [owner["metadata"]["uid"]]
        await cluster.delete(resource, "s", propagation="Orphan")
        assert "ownerReferences" not in cluster.list("controllerrevisions.apps")[0]["metadata"]


@pytest.mark.parametrize("text", ["²", "x", "9" * 5000])
@pytest.mark.parametrize("name", ["job-completion-index", "job-index-failure-count"])
async def test_indexed_job_fails_in_the_end_when_an_annotation_of_its_pod_has_a_malformed_number(
    cluster: Cluster, name: str, text: str
):
    await cluster.settled("jobs.batch", job("x:crash-loop", completionMode="Indexed", backoffLimitPerIndex=1))
    (pod,) = cluster.list("pods")
    patch = {"metadata": {"annotations": {f"batch.kubernetes.io/{name}": text}}}
    await cluster.client.patch("pods", "x", pod["metadata"]["name"], patch)
    await cluster.settle(100)
    assert cluster.condition("Failed", "jobs.batch", "j")[:2] == ("True", "FailedIndexes")


async def test_indexed_job_ignores_malformed_and_too_high_indexes_in_its_status(slow_cluster: Cluster):
    cluster = slow_cluster
    await cluster.apply("jobs.batch", job(completionMode="Indexed", completions=5, parallelism=5))
    patch = {"status": {"completedIndexes": "0,x,-1,2-,3-1000000", "failedIndexes": "9,,1000000-2000000"}}
    await cluster.client.patch("jobs.batch", "x", "j", patch, subresource="status")
    await cluster.settle(0.5)
    status = cluster.get("jobs.batch", "j")["status"]
    assert (status["completedIndexes"], status["succeeded"]) == ("0,3,4", 3)


async def test_indexed_job_with_the_highest_number_of_completions_starts_its_first_pods(
    slow_cluster: Cluster,
):
    cluster, spec = slow_cluster, {"completionMode": "Indexed", "completions": 2**31 - 1}
    await cluster.settled("jobs.batch", job(**spec, parallelism=2), 0.5)
    assert sorted(pod["spec"]["hostname"] for pod in cluster.list("pods")) == ["j-0", "j-1"]
