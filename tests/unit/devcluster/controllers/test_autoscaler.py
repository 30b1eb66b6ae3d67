from __future__ import annotations

from typing import Any

import pytest

from tests.unit.devcluster.controllers.conftest import Cluster, deployment

pytestmark = pytest.mark.virtual_time


def autoscaler(*metrics: dict, **spec: Any) -> dict:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    listed = {"metrics": list(metrics)} if metrics else {}
    return {
        "metadata": {"name": "h"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 10, **listed, **spec},
    }


HPA = ("horizontalpodautoscalers.autoscaling", "h")


async def start(cluster: Cluster, replicas: int, *metrics: dict, **spec: Any) -> None:
    scaled = deployment("d", replicas)
    scaled["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    await cluster.settled("deployments.apps", scaled)
    await cluster.settled(HPA[0], autoscaler(*metrics, **spec))


async def use(cluster: Cluster, seconds: float = 20.0, **amounts: str) -> None:
    """Set the usage annotations of all pods, and give the autoscaler this many seconds."""
    annotations = {f"devcluster.local/{name}": amount for name, amount in amounts.items()}
    for pod in cluster.list("pods"):
        await cluster.client.patch(
            "pods", "x", pod["metadata"]["name"], {"metadata": {"annotations": annotations}}
        )
    await cluster.settle(seconds)


def replicas(cluster: Cluster) -> int:
    return int(cluster.get("deployments.apps", "d")["spec"]["replicas"])


async def test_autoscaler_adds_replicas_when_pods_use_more_than_the_target(cluster: Cluster):
    await start(cluster, 2)
    await use(cluster, 0.5, cpu="120m")
    assert replicas(cluster) == 3
    assert cluster.condition("ScalingActive", *HPA)[:2] == ("True", "ValidMetricFound")
    message = "New size: 3; reason: cpu resource utilization (percentage of request) above target"
    assert ("SuccessfulRescale", message) in cluster.events("HorizontalPodAutoscaler")
    (metric,) = cluster.get(*HPA)["status"]["currentMetrics"]
    assert metric["resource"] == {
        "name": "cpu",
        "current": {"averageUtilization": 120, "averageValue": "120m"},
    }


@pytest.mark.parametrize(
    ("before", "spec", "cpu", "after", "kind", "condition"),
    [
        (4, {}, "20m", 4, "AbleToScale", ("True", "ScaleDownStabilized")),
        (2, {}, "84m", 2, "ScalingLimited", ("False", "DesiredWithinRange")),
        (2, {"maxReplicas": 3}, "400m", 3, "ScalingLimited", ("True", "TooManyReplicas")),
    ],
    ids=["below the target", "near the target", "above its bounds"],
)
async def test_autoscaler_condition_explains_why_scaling_is_delayed_or_limited(
    cluster: Cluster, before: int, spec: dict, cpu: str, after: int, kind: str, condition: tuple[str, str]
):
    await start(cluster, before, **spec)
    await use(cluster, cpu=cpu)
    assert (replicas(cluster), cluster.condition(kind, *HPA)[:2]) == (after, condition)
    await cluster.settle(310)  # the stabilization window of five minutes ends
    assert replicas(cluster) == (1 if before == 4 else after)


async def test_autoscaler_behavior_policy_limits_the_scale_up_rate(cluster: Cluster):
    one_a_minute = {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}
    await start(cluster, 2, behavior=one_a_minute)
    await use(cluster, 0.5, cpu="400m")
    for seconds, expected in ((40, 3), (40, 3), (0, 4)):
        assert replicas(cluster) == expected
        await cluster.settle(seconds)


async def test_autoscaler_event_names_a_container_without_a_cpu_request(cluster: Cluster):
    await cluster.settled("deployments.apps", deployment("d", 1))
    await cluster.settled(HPA[0], autoscaler())
    await use(cluster, cpu="400m")
    assert cluster.condition("ScalingActive", *HPA)[:2] == ("False", "FailedGetResourceMetric")
    (pod,) = cluster.list("pods")
    text = f"missing request for cpu in container c of Pod {pod['metadata']['name']}"
    assert any(text in message for _, message in cluster.events("HorizontalPodAutoscaler"))


REQUESTS = {"name": "requests"}
DESCRIBED = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
AVERAGE = {"type": "AverageValue", "averageValue": "10"}


@pytest.mark.parametrize(
    ("kind", "source", "holder"),
    [
        ("Pods", {"target": AVERAGE}, ()),
        (
            "Object",
            {"describedObject": DESCRIBED, "target": {"type": "Value", "value": "10"}},
            ("deployments.apps", "x", "d"),
        ),
        ("External", {"target": AVERAGE}, ("namespaces", "", "x")),
    ],
)
async def test_autoscaler_scales_by_a_metric_of_type_pods_object_or_external(
    cluster: Cluster, kind: str, source: dict, holder: tuple[str, ...]
):
    metric = {"type": kind, kind.lower(): {"metric": REQUESTS, **source}}
    await start(cluster, 1, metric)
    assert cluster.condition("ScalingActive", *HPA)[0] == "False"
    if not holder:
        await use(cluster, 1.0, **{"metric.requests": "30"})
    else:
        patch = {"metadata": {"annotations": {"devcluster.local/metric.requests": "30"}}}
        await cluster.client.patch(*holder, patch)
        await cluster.settle(12)
    assert replicas(cluster) == 3


@pytest.mark.parametrize(
    ("cpu", "source", "text"),
    [
        ("0", {}, "no metrics returned matched known pods"),
        ("1", {"container": "y"}, "container y not present in metrics for pod x/"),
    ],
)
async def test_autoscaler_reports_the_reason_when_a_pod_has_no_request_to_compare_with(
    cluster: Cluster, cpu: str, source: dict, text: str
):
    made, kind = deployment("d", 1), "containerResource" if source else "resource"
    made["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    await cluster.settled("deployments.apps", made)
    target = {"type": "Utilization", "averageUtilization": 50}
    metric = {"type": kind[0].upper() + kind[1:], kind: {"name": "cpu", "target": target, **source}}
    await cluster.settled(HPA[0], autoscaler(metric))
    await use(cluster, cpu="400m")
    status, reason, message = cluster.condition("ScalingActive", *HPA)
    assert (status, reason) == ("False", f"FailedGet{metric['type']}Metric")
    assert text in message


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (None, "the HPA target's scale is missing a selector"),
        ("a=(", "couldn't convert selector into a corresponding internal selector object: unable to parse"),
    ],
)
async def test_autoscaler_reports_an_invalid_selector_of_the_scale(
    cluster: Cluster, selector: str | None, message: str
):
    await cluster.settled(
        "pods", {"metadata": {"name": "p"}, "spec": deployment(1)["spec"]["template"]["spec"]}
    )
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"scale": scale},
    }
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    definition = {
        "metadata": {"name": "things.e.com"},
        "spec": {"group": "e.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    await cluster.client.create("customresourcedefinitions.apiextensions.k8s.io", "", definition)
    await cluster.settle()
    thing = {"metadata": {"name": "t"}, "spec": {"replicas": 1}}
    if selector is not None:
        thing["status"] = {"selector": selector}
    await cluster.apply("things.e.com", {"apiVersion": "e.com/v1", "kind": "Thing", **thing})
    target = {"apiVersion": "e.com/v1", "kind": "Thing", "name": "t"}
    await cluster.settled(HPA[0], autoscaler(scaleTargetRef=target))
    await use(cluster, cpu="400m")
    status, reason, text = cluster.condition("ScalingActive", *HPA)
    assert (status, reason) == ("False", "InvalidSelector")
    assert text.startswith(message)
