from __future__ import annotations

import pytest

from tests.unit.devcluster.controllers.conftest import Cluster, Make

pytestmark = pytest.mark.virtual_time


def conditions(cluster: Cluster, name: str = "x") -> dict[str, tuple[str, str, str]]:
    status = cluster.get("namespaces", name, "")["status"]
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in status["conditions"]}


async def test_new_namespace_gets_its_account_and_certificate(cluster: Cluster):
    assert cluster.get("serviceaccounts", "default") is not None
    assert cluster.get("configmaps", "kube-root-ca.crt")["data"] == {"ca.crt": ""}


async def test_account_and_certificate_come_back(cluster: Cluster):
    await cluster.client.delete("serviceaccounts", "x", "default")
    await cluster.client.patch("configmaps", "x", "kube-root-ca.crt", {"data": {"ca.crt": "no"}})
    await cluster.settle()
    assert cluster.get("serviceaccounts", "default") is not None
    assert cluster.get("configmaps", "kube-root-ca.crt")["data"] == {"ca.crt": ""}


async def test_deleted_namespace_is_emptied_pods_first(cluster: Cluster, deployment: Make):
    await cluster.apply("deployments.apps", deployment())
    await cluster.settle()
    cluster.seen.clear()
    await cluster.client.delete("namespaces", "", "x")
    await cluster.settle(60)
    gone = [plural for plural, _, obj in cluster.seen if obj is None]
    assert gone[-1] == "namespaces"
    assert {"pods", "replicasets", "deployments", "configmaps", "serviceaccounts"} <= set(gone)
    last_pod = max(index for index, plural in enumerate(gone) if plural == "pods")
    assert "serviceaccounts" not in gone[: last_pod + 1] or gone.index("serviceaccounts") > 2
    assert cluster.list("configmaps") == cluster.list("events") == []


async def test_namespace_waits_for_finalizers_and_says_so(cluster: Cluster):
    held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["a.b/c"]}}
    await cluster.apply("configmaps", held)
    await cluster.client.delete("namespaces", "", "x")
    await cluster.settle()
    assert conditions(cluster) == {
        "NamespaceDeletionDiscoveryFailure": (
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        "NamespaceDeletionGroupVersionParsingFailure": (
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        "NamespaceDeletionContentFailure": (
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        "NamespaceContentRemaining": (
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 1 resource instances",
        ),
        "NamespaceFinalizersRemaining": (
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: a.b/c in 1 resource instances",
        ),
    }
    await cluster.client.patch("configmaps", "x", "held", {"metadata": {"finalizers": None}})
    await cluster.settle()
    assert cluster.get("namespaces", "x", "") is None
