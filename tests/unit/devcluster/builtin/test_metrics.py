from __future__ import annotations

from typing import Any

import orjson
import pytest

from devcluster.cluster import ADMIN, DevCluster
from devcluster.http_call import ApiRequest

GROUP = "/apis/metrics.k8s.io/v1beta1"
USAGE = {"devcluster.local/cpu": "250m", "devcluster.local/memory": "64Mi"}


async def get(cluster: DevCluster, path: str, **query: str) -> tuple[int, dict[str, Any]]:
    asked = {name: [value] for name, value in query.items()}
    request = ApiRequest(method="GET", path=path, query=asked, headers={"accept": "application/json"})
    request.user = ADMIN
    answer = await cluster.handle(request)
    return answer.status, orjson.loads(answer.body) if answer.body.startswith(b"{") else {}


async def create_pod(cluster: DevCluster, name: str, annotations: dict[str, str]) -> None:
    containers = [{"name": each, "image": "x"} for each in ("one", "two")]
    metadata = {"name": name, "labels": {"app": name}, "annotations": annotations}
    await cluster.client.create("pods", "default", {"metadata": metadata, "spec": {"containers": containers}})


async def test_metrics_api_group_is_not_served_until_some_pod_has_usage_annotations():
    async with DevCluster(port=None, controllers=False) as cluster:
        await create_pod(cluster, "idle", {"devcluster.local/run-time": "5"})
        assert (await get(cluster, f"{GROUP}/pods"))[0] == 404
        await create_pod(cluster, "busy", USAGE)
        status, found = await get(cluster, GROUP)
        await cluster.client.create("nodes", "", {"metadata": {"name": "n", "annotations": USAGE}})
        _, node = await get(cluster, f"{GROUP}/nodes/n")
        _, index = await get(cluster, "/openapi/v3")
        assert (await get(cluster, "/openapi/v2"))[0] == 200
    assert status == 200
    assert [(each["name"], each["kind"], each["verbs"]) for each in found["resources"]] == [
        ("nodes", "NodeMetrics", ["get", "list"]),
        ("pods", "PodMetrics", ["get", "list"]),
    ]
    assert (node["kind"], node["usage"]) == ("NodeMetrics", {"cpu": "250m", "memory": "64Mi"})
    assert not any("metrics" in path for path in index["paths"])


@pytest.mark.parametrize(("query", "names"), [({}, ["busy"]), ({"labelSelector": "app=idle"}, [])])
async def test_metrics_api_lists_only_pods_with_usage_annotations(query: dict[str, str], names: list[str]):
    async with DevCluster(port=None, controllers=False) as cluster:
        await create_pod(cluster, "busy", USAGE)
        await create_pod(cluster, "idle", {})
        _, found = await get(cluster, f"{GROUP}/namespaces/default/pods", **query)
        assert (await get(cluster, f"{GROUP}/namespaces/default/pods/idle"))[0] == 404
    assert [each["metadata"]["name"] for each in found["items"]] == names
    for each in found["items"]:
        usage = {"cpu": "250m", "memory": "64Mi"}
        assert each["containers"] == [{"name": "one", "usage": usage}, {"name": "two", "usage": usage}]
        assert each["timestamp"].endswith("Z")
        assert each["window"] == "15s"
