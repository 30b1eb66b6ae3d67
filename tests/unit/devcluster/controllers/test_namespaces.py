from __future__ import annotations

import pytest

from tests.unit.devcluster.controllers.conftest import Cluster, Make

pytestmark = pytest.mark.virtual_time


async def test_new_namespace_gets_its_account_and_certificate(cluster: Cluster):
    assert cluster.get("serviceaccounts", "default") is not None
    assert cluster.get("configmaps", "kube-root-ca.crt")["data"] == {"ca.crt": ""}


async def test_account_and_certificate_come_back(cluster: Cluster):
    await cluster.client.delete("serviceaccounts", "x", "default")
    await cluster.patch("configmaps", "kube-root-ca.crt", {"data": {"ca.crt": "no"}})
    assert cluster.get("serviceaccounts", "default") is not None
    assert cluster.get("configmaps", "kube-root-ca.crt")["data"] == {"ca.crt": ""}


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
