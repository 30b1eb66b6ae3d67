from __future__ import annotations

import pytest

from tests.support.effort import Effort
from tests.unit.devcluster.controllers.conftest import Cluster, deployment

pytestmark = pytest.mark.virtual_time


def config(name: str, *owners: dict, **reference: bool) -> dict:
    """Return a ConfigMap with these owners."""
    references = [
        {
            **{field: owner[field] for field in ("apiVersion", "kind")},
            **{field: owner["metadata"][field] for field in ("name", "uid")},
            **reference,
        }
        for owner in owners
    ]
    metadata = {"name": name, **({"ownerReferences": references} if owners else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def chain(cluster: Cluster, **reference: bool) -> None:
    top = await cluster.apply("configmaps", config("top"))
    middle = await cluster.apply("configmaps", config("middle", top, **reference))
    await cluster.apply("configmaps", config("bottom", middle, **reference))


def names(cluster: Cluster) -> set[str]:
    return {each["metadata"]["name"] for each in cluster.list("configmaps")} - {"kube-root-ca.crt"}


async def test_foreground_deletion_deletes_dependents_first(cluster: Cluster):
    await chain(cluster, blockOwnerDeletion=True)
    cluster.seen.clear()
    await cluster.delete("configmaps", "top", propagation="Foreground")
    assert [name for _, name, obj in cluster.seen if obj is None] == ["bottom", "middle", "top"]


async def test_garbage_collector_keeps_a_dependent_while_another_owner_exists(cluster: Cluster):
    owners = [await cluster.apply("configmaps", config(name)) for name in ("first", "second")]
    await cluster.apply("configmaps", config("shared", *owners))
    await cluster.delete("configmaps", "first")
    left = cluster.get("configmaps", "shared")["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in left] == ["second"]


async def test_garbage_collector_deletes_an_object_whose_owner_does_not_exist(cluster: Cluster):
    owner = await cluster.apply("configmaps", config("owner"))
    elsewhere = await cluster.apply("configmaps", config("elsewhere"), namespace="y")
    another = {**owner, "metadata": {"name": "owner", "uid": "not-its-uid"}}
    await cluster.apply("configmaps", config("never", another))
    await cluster.settled("configmaps", config("abroad", elsewhere))
    assert names(cluster) == {"owner"}


async def test_garbage_collector_deletes_a_thousand_dependents_quickly(cluster: Cluster):
    owner = await cluster.apply("configmaps", config("owner"))
    for number in range(1000):
        await cluster.apply("configmaps", config(f"c{number}", owner, controller=True))
    with Effort() as spent:
        await cluster.client.delete("configmaps", "x", "owner")
        await cluster.settle(30)
    assert names(cluster) == set()
    assert spent.units < 200


async def test_namespace_deletion_deletes_its_pods_before_other_objects(cluster: Cluster):
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
