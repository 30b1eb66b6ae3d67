from __future__ import annotations

import asyncio

import pytest

from tests.unit.devcluster.controllers.conftest import Cluster, deployment

pytestmark = pytest.mark.virtual_time

WEB = ("deployments.apps", "web")


def image(name: str) -> dict:
    return {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": name}]}}}}


def condition(cluster: Cluster, kind: str) -> tuple[str, str, str]:
    return cluster.condition(kind, *WEB)


def steps(cluster: Cluster) -> list[tuple]:
    """Return the statuses of the Deployment that a watch would deliver, in order."""
    found = []
    for plural, _, obj in cluster.seen:
        if plural == "deployments" and obj is not None:
            status = obj.get("status", {})
            reasons = {each["type"]: each["reason"] for each in status.get("conditions", ())}
            found.append(
                (
                    status.get("observedGeneration", 0),
                    status.get("replicas", 0),
                    status.get("updatedReplicas", 0),
                    status.get("availableReplicas", 0),
                    status.get("unavailableReplicas", 0),
                    reasons.get("Available", ""),
                    reasons.get("Progressing", ""),
                )
            )
    return found


async def test_deployment_rollout_makes_the_same_status_updates_as_the_real_controller(slow_cluster: Cluster):
    cluster = slow_cluster
    await cluster.settled("deployments.apps", deployment())
    bad, good = "MinimumReplicasUnavailable", "MinimumReplicasAvailable"
    # As recorded from a real control plane.
    assert steps(cluster) == [
        (0, 0, 0, 0, 0, "", ""),
        (0, 0, 0, 0, 0, "", "NewReplicaSetCreated"),
        (1, 0, 0, 0, 3, bad, "NewReplicaSetCreated"),
        (1, 3, 3, 0, 3, bad, "ReplicaSetUpdated"),
        (1, 3, 3, 3, 0, good, "NewReplicaSetAvailable"),
    ]
    (replica_set,) = cluster.list("replicasets.apps")
    name = replica_set["metadata"]["name"]
    digest = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert name == f"web-{digest}"
    assert {pod["metadata"]["labels"]["pod-template-hash"] for pod in cluster.list("pods")} == {digest}
    assert cluster.events("Deployment") == [
        ("ScalingReplicaSet", f"Scaled up replica set {name} from 0 to 3")
    ]
    before = cluster.store.version
    await asyncio.sleep(100_000)
    assert cluster.store.version == before, "a steady state needs no writes"


async def test_rolling_update_stays_within_max_surge_and_max_unavailable(slow_cluster: Cluster):
    cluster = slow_cluster
    await cluster.settled("deployments.apps", deployment())
    cluster.seen.clear()
    await cluster.patch(*WEB, image("nginx:2"), 20)
    seen = steps(cluster)
    assert all(replicas <= 4 and available >= 3 for _, replicas, _, available, *_ in seen)
    assert seen[-1][1:4] == (3, 3, 3)
    web = cluster.get(*WEB)
    assert web["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "2"}
    old, new = sorted(cluster.list("replicasets.apps"), key=lambda each: each["spec"]["replicas"])
    old_name, new_name = old["metadata"]["name"], new["metadata"]["name"]
    assert [message for _, message in cluster.events("Deployment")[1:]] == [
        f"Scaled up replica set {new_name} from 0 to 1",
        f"Scaled down replica set {old_name} from 3 to 2",
        f"Scaled up replica set {new_name} from 1 to 2",
        f"Scaled down replica set {old_name} from 2 to 1",
        f"Scaled up replica set {new_name} from 2 to 3",
        f"Scaled down replica set {old_name} from 1 to 0",
    ]
    assert {pod["spec"]["containers"][0]["image"] for pod in cluster.list("pods")} == {"nginx:2"}


async def test_recreate_strategy_waits_until_the_old_pods_are_deleted(slow_cluster: Cluster):
    cluster = slow_cluster
    await cluster.settled("deployments.apps", deployment(strategy={"type": "Recreate"}))
    cluster.seen.clear()
    await cluster.patch(*WEB, image("nginx:2"))
    order = [
        ("gone" if obj is None else "new")
        for plural, name, obj in cluster.seen
        if plural == "pods" and (obj is None or "conditions" not in obj["status"])
    ]
    assert order == ["gone"] * 3 + ["new"] * 3
    assert cluster.get(*WEB)["status"]["updatedReplicas"] == 3


async def test_deployment_without_progress_exceeds_its_progress_deadline(cluster: Cluster):
    await cluster.settled("deployments.apps", deployment(progressDeadlineSeconds=60))
    await cluster.patch(*WEB, image("nginx:never-ready"), 50)
    assert condition(cluster, "Progressing")[1] == "ReplicaSetUpdated"
    await cluster.settle(20)
    new = next(each for each in cluster.list("replicasets.apps") if each["spec"]["replicas"] == 1)
    message = f'ReplicaSet "{new["metadata"]["name"]}" has timed out progressing.'
    assert condition(cluster, "Progressing") == ("False", "ProgressDeadlineExceeded", message)
    assert condition(cluster, "Available")[0] == "True"
    assert cluster.get(*WEB)["status"]["unavailableReplicas"] == 1


@pytest.mark.parametrize("text", ["²", "--5", "9" * 5000])
async def test_deployment_is_scaled_down_when_annotations_have_malformed_numbers(cluster: Cluster, text: str):
    await cluster.settled("deployments.apps", deployment())
    (replica_set,) = cluster.list("replicasets.apps")
    for pod in cluster.list("pods"):
        patch = {"metadata": {"annotations": {"batch.kubernetes.io/job-completion-index": text}}}
        await cluster.client.patch("pods", "x", pod["metadata"]["name"], patch)
    names = ("deployment.kubernetes.io/revision", "deployment.kubernetes.io/max-replicas")
    patch = {"metadata": {"annotations": dict.fromkeys(names, text)}}
    await cluster.patch("replicasets.apps", replica_set["metadata"]["name"], patch)
    await cluster.patch(*WEB, {"spec": {"replicas": 1}})
    assert cluster.get(*WEB)["status"]["readyReplicas"] == 1
