from __future__ import annotations

from typing import Any

import pytest

from tests.unit.devcluster.controllers.conftest import Cluster, deployment

pytestmark = pytest.mark.virtual_time


def service(name: str = "web", **spec: Any) -> dict:
    ports = [{"port": 80, "protocol": "TCP", "targetPort": "http"}]
    spec = {"selector": {"app": "web"}, "ports": ports, **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def web():
    made = deployment(replicas=2)
    made["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"name": "http", "containerPort": 8080}]
    return made


async def test_endpoints_list_unready_pods_under_not_ready_addresses(cluster: Cluster, web: dict):
    web["spec"]["template"]["metadata"]["annotations"] = {"devcluster.local/never-ready": "true"}
    await cluster.apply("services", service())
    await cluster.apply("services", service("all", publishNotReadyAddresses=True))
    await cluster.settled("deployments.apps", web)
    assert [list(each) for each in cluster.get("endpoints", "web")["subsets"]] == [
        ["notReadyAddresses", "ports"]
    ]
    assert [list(each) for each in cluster.get("endpoints", "all")["subsets"]] == [["addresses", "ports"]]


async def test_endpoint_slice_contains_at_most_a_hundred_addresses(cluster: Cluster, web: dict):
    web["spec"]["replicas"] = 150
    await cluster.apply("services", service())
    await cluster.settled("deployments.apps", web, 10)
    sizes = [len(each["endpoints"]) for each in cluster.list("endpointslices.discovery.k8s.io")]
    assert sorted(sizes) == [50, 100]
