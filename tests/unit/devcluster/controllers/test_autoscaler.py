from __future__ import annotations

from typing import Any

import pytest

from tests.unit.devcluster.controllers.conftest import Cluster

pytestmark = pytest.mark.virtual_time


def deployment(replicas: int) -> dict:
    container = {"name": "x", "image": "y", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    return {
        "metadata": {"name": "d"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}},
        },
    }


def autoscaler(*metrics: dict, **spec: Any) -> dict:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    listed = {"metrics": list(metrics)} if metrics else {}
    return {
        "metadata": {"name": "h"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 10, **listed, **spec},
    }


async def use(cluster: Cluster, seconds: float = 20.0, **amounts: str) -> None:
    """Set what each pod uses, and let the autoscaler see it."""
    annotations = {f"devcluster.local/{name}": amount for name, amount in amounts.items()}
    for pod in cluster.list("pods"):
        await cluster.client.patch(
            "pods", "x", pod["metadata"]["name"], {"metadata": {"annotations": annotations}}
        )
    await cluster.settle(seconds)


def replicas(cluster: Cluster) -> int:
    return int(cluster.get("deployments.apps", "d")["spec"]["replicas"])


def condition(cluster: Cluster, kind: str) -> tuple[str, str]:
    listed = cluster.get("horizontalpodautoscalers.autoscaling", "h")["status"]["conditions"]
    found = next(each for each in listed if each["type"] == kind)
    return found["status"], found["reason"]


async def test_autoscaler_adds_replicas_when_pods_use_more_than_the_target(cluster: Cluster):
    await cluster.settled("deployments.apps", deployment(2))
    await cluster.settled("horizontalpodautoscalers.autoscaling", autoscaler())
    await use(cluster, 0.5, cpu="120m")
    assert replicas(cluster) == 3
    assert condition(cluster, "ScalingActive") == ("True", "ValidMetricFound")
    message = "New size: 3; reason: cpu resource utilization (percentage of request) above target"
    assert ("SuccessfulRescale", message) in cluster.events("HorizontalPodAutoscaler")
    (metric,) = cluster.get("horizontalpodautoscalers.autoscaling", "h")["status"]["currentMetrics"]
    assert metric["resource"] == {
        "name": "cpu",
        "current": {"averageUtilization": 120, "averageValue": "120m"},
    }


async def test_autoscaler_removes_replicas_only_after_five_minutes(cluster: Cluster):
    await cluster.settled("deployments.apps", deployment(4))
    await cluster.settled("horizontalpodautoscalers.autoscaling", autoscaler())
    await use(cluster, cpu="20m")
    assert replicas(cluster) == 4
    assert condition(cluster, "AbleToScale") == ("True", "ScaleDownStabilized")
    await cluster.settle(310)
    assert replicas(cluster) == 1


async def test_autoscaler_keeps_the_scale_near_the_target(cluster: Cluster):
    await cluster.settled("deployments.apps", deployment(2))
    await cluster.settled("horizontalpodautoscalers.autoscaling", autoscaler())
    await use(cluster, cpu="84m")
    assert replicas(cluster) == 2
    assert condition(cluster, "ScalingLimited") == ("False", "DesiredWithinRange")


async def test_autoscaler_stays_within_its_bounds(cluster: Cluster):
    await cluster.settled("deployments.apps", deployment(2))
    await cluster.settled("horizontalpodautoscalers.autoscaling", autoscaler(maxReplicas=3))
    await use(cluster, 0.5, cpu="400m")
    assert replicas(cluster) == 3
    assert condition(cluster, "ScalingLimited") == ("True", "TooManyReplicas")


async def test_autoscaler_behavior_limits_the_speed(cluster: Cluster):
    one_a_minute = {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}
    await cluster.settled("deployments.apps", deployment(2))
    await cluster.settled("horizontalpodautoscalers.autoscaling", autoscaler(behavior=one_a_minute))
    await use(cluster, 0.5, cpu="400m")
    assert replicas(cluster) == 3
    await cluster.settle(40)
    assert replicas(cluster) == 3
    await cluster.settle(40)
    assert replicas(cluster) == 4


async def test_autoscaler_names_a_container_without_a_request(cluster: Cluster):
    without = deployment(1)
    del without["spec"]["template"]["spec"]["containers"][0]["resources"]
    await cluster.settled("deployments.apps", without)
    await cluster.settled("horizontalpodautoscalers.autoscaling", autoscaler())
    await use(cluster, cpu="400m")
    assert condition(cluster, "ScalingActive") == ("False", "FailedGetResourceMetric")
    (pod,) = cluster.list("pods")
    text = f"missing request for cpu in container x of Pod {pod['metadata']['name']}"
    assert any(text in message for _, message in cluster.events("HorizontalPodAutoscaler"))


@pytest.mark.parametrize(
    ("metric", "holder"),
    [
        (
            {
                "type": "Pods",
                "pods": {
                    "metric": {"name": "requests"},
                    "target": {"type": "AverageValue", "averageValue": "10"},
                },
            },
            "pods",
        ),
        (
            {
                "type": "Object",
                "object": {
                    "metric": {"name": "requests"},
                    "describedObject": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                    "target": {"type": "Value", "value": "10"},
                },
            },
            "deployments.apps",
        ),
        (
            {
                "type": "External",
                "external": {
                    "metric": {"name": "requests"},
                    "target": {"type": "AverageValue", "averageValue": "10"},
                },
            },
            "namespaces",
        ),
    ],
    ids=["Pods", "Object", "External"],
)
async def test_autoscaler_follows_a_named_metric(cluster: Cluster, metric: dict, holder: str):
    await cluster.settled("deployments.apps", deployment(1))
    await cluster.settled("horizontalpodautoscalers.autoscaling", autoscaler(metric))
    assert condition(cluster, "ScalingActive")[0] == "False"
    patch = {"metadata": {"annotations": {"devcluster.local/metric.requests": "30"}}}
    if holder == "pods":
        await use(cluster, 1.0, **{"metric.requests": "30"})
    else:
        name = "x" if holder == "namespaces" else "d"
        await cluster.client.patch(holder, "" if holder == "namespaces" else "x", name, patch)
        await cluster.settle(12)
    assert replicas(cluster) == 3
