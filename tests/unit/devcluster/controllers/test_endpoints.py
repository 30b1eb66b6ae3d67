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


async def test_endpoints_made_by_hand_are_taken_over_when_the_service_gets_a_selector(
    cluster: Cluster, web: dict
):
    await cluster.apply("services", service(selector=None))
    subset = {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}]}
    await cluster.apply("endpoints", {"metadata": {"name": "web"}, "subsets": [subset]})
    await cluster.settled("deployments.apps", web)
    await cluster.patch("services", "web", {"spec": {"selector": {"app": "web"}}})
    (listed,) = cluster.get("endpoints", "web")["subsets"]
    ips = {pod["status"]["podIP"] for pod in cluster.list("pods")}
    assert {each["ip"] for each in listed["addresses"]} == ips


async def test_mirrored_slice_follows_the_address_family_and_annotations_of_its_endpoints(cluster: Cluster):
    await cluster.apply("services", service(selector=None))
    subset = {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}]}
    await cluster.settled("endpoints", {"metadata": {"name": "web"}, "subsets": [subset]})
    patch = {"metadata": {"annotations": {"a": "b"}}}
    await cluster.patch("endpoints", "web", patch)
    (mirrored,) = cluster.list("endpointslices.discovery.k8s.io")
    assert (mirrored["addressType"], mirrored["metadata"]["annotations"]) == ("IPv4", {"a": "b"})
    patch = {"subsets": [{**subset, "addresses": [{"ip": "2001:db8::1"}]}]}
    await cluster.patch("endpoints", "web", patch)
    (mirrored,) = cluster.list("endpointslices.discovery.k8s.io")
    assert (mirrored["addressType"], mirrored["endpoints"][0]["addresses"]) == ("IPv6", ["2001:db8::1"])
