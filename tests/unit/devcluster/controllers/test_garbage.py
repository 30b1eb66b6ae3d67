from __future__ import annotations

import pytest

from tests.support.effort import Effort
from tests.unit.devcluster.controllers.conftest import Cluster, deployment, pod

pytestmark = pytest.mark.virtual_time


async def test_garbage_collector_deletes_a_thousand_dependents_quickly(cluster: Cluster):
    owner = await cluster.apply("configmaps", {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    for number in range(1000):
        owned = {"metadata": {"name": f"c{number}", "ownerReferences": [reference]}}
        await cluster.apply("configmaps", owned)
    with Effort() as spent:
        await cluster.client.delete("configmaps", "x", "owner")
        await cluster.settle(30)
    assert [each["metadata"]["name"] for each in cluster.list("configmaps")] == ["kube-root-ca.crt"]
    assert spent.units < 200


async def test_namespace_deletion_deletes_its_pods_before_other_objects(cluster: Cluster):
    await cluster.apply("pods", pod(annotations={"devcluster.local/stop-time": "9"}))
    await cluster.settled("deployments.apps", deployment())
    cluster.seen.clear()
    await cluster.client.delete("namespaces", "", "x")
    await cluster.settle(60)
    gone = [plural for plural, _, obj in cluster.seen if obj is None]
    assert gone[-1] == "namespaces"
    assert {"pods", "replicasets", "deployments", "configmaps", "serviceaccounts"} <= set(gone)
    last_pod = max(index for index, plural in enumerate(gone) if plural == "pods")
    assert set(gone[: last_pod + 1]) == {"pods"}
    assert cluster.list("configmaps") == cluster.list("events") == []
