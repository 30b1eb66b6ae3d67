from __future__ import annotations

from typing import Any

import pytest

from tests.support.effort import Effort
from tests.unit.devcluster.controllers.conftest import Cluster, Make

pytestmark = pytest.mark.virtual_time


def config(name: str, owner: dict | None = None, *, block: bool = False, controller: bool = False) -> dict:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    if owner is not None:
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
        if block:
            reference["blockOwnerDeletion"] = True
        if controller:
            reference["controller"] = True
        obj["metadata"]["ownerReferences"] = [reference]
    return obj


async def chain(cluster: Cluster, **kwargs: Any):
    top = await cluster.apply("configmaps", config("top"))
    middle = await cluster.apply("configmaps", config("middle", top, **kwargs))
    return top, middle, await cluster.apply("configmaps", config("bottom", middle, **kwargs))


def names(cluster: Cluster) -> set[str]:
    return {each["metadata"]["name"] for each in cluster.list("configmaps")} - {"kube-root-ca.crt"}


async def test_foreground_deletion_deletes_dependents_first(cluster: Cluster):
    await chain(cluster, block=True)
    cluster.seen.clear()
    await cluster.delete("configmaps", "top", propagation="Foreground")
    assert [name for _, name, obj in cluster.seen if obj is None] == ["bottom", "middle", "top"]


async def test_orphans_stay_and_forget_their_owner(cluster: Cluster):
    await chain(cluster)
    await cluster.delete("configmaps", "top", propagation="Orphan")
    assert names(cluster) == {"middle", "bottom"}
    assert "ownerReferences" not in cluster.get("configmaps", "middle")["metadata"]


async def test_dependent_stays_while_another_owner_exists(cluster: Cluster):
    first = await cluster.apply("configmaps", config("first"))
    second = await cluster.apply("configmaps", config("second"))
    shared = config("shared", first)
    shared["metadata"]["ownerReferences"] += config("", second)["metadata"]["ownerReferences"]
    await cluster.apply("configmaps", shared)
    await cluster.delete("configmaps", "first")
    owners = cluster.get("configmaps", "shared")["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in owners] == ["second"]


async def test_garbage_collector_deletes_an_object_whose_owner_never_existed(cluster: Cluster):
    owner = await cluster.apply("configmaps", config("owner"))
    stranger = config("stranger", {**owner, "metadata": {"name": "owner", "uid": "not-its-uid"}})
    await cluster.settled("configmaps", stranger)
    assert names(cluster) == {"owner"}


async def test_owner_in_another_namespace_does_not_count(cluster: Cluster):
    owner = await cluster.apply("configmaps", config("owner"), namespace="y")
    await cluster.settled("configmaps", config("stray", owner))
    assert names(cluster) == set()


async def test_garbage_collector_deletes_a_thousand_dependents_quickly(cluster: Cluster):
    owner = await cluster.apply("configmaps", config("owner"))
    for number in range(1000):
        await cluster.apply("configmaps", config(f"c{number}", owner, controller=True))
    with Effort() as spent:
        await cluster.client.delete("configmaps", "x", "owner")
        await cluster.settle(30)
    assert names(cluster) == set()
    assert spent.units < 200


async def test_deleted_namespace_is_emptied_pods_first(cluster: Cluster, deployment: Make):
    await cluster.settled("deployments.apps", deployment())
    cluster.seen.clear()
    await cluster.client.delete("namespaces", "", "x")
    await cluster.settle(60)
    gone = [plural for plural, _, obj in cluster.seen if obj is None]
    assert gone[-1] == "namespaces"
    assert {"pods", "replicasets", "deployments", "configmaps", "serviceaccounts"} <= set(gone)
    last_pod = max(index for index, plural in enumerate(gone) if plural == "pods")
    assert "serviceaccounts" not in gone[: last_pod + 1] or gone.index("serviceaccounts") > 2
    assert cluster.list("configmaps") == cluster.list("events") == []
