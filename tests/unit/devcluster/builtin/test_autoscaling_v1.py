"""HorizontalPodAutoscalers between their versions."""

from __future__ import annotations

from typing import Any

from devcluster.builtin.autoscaling_v1 import convert_autoscalers

CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}},
}
MEMORY = {
    "type": "Resource",
    "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "60Mi"}},
}


def autoscaler(**spec: Any) -> dict[str, Any]:
    return {
        "kind": "HorizontalPodAutoscaler",
        "apiVersion": "autoscaling/v2",
        "metadata": {"name": "a", "annotations": {"own": "one"}},
        "spec": {"maxReplicas": 5, **spec},
        "status": {"currentMetrics": None, "desiredReplicas": 0},
    }


async def converted(obj: dict[str, Any], version: str) -> dict[str, Any]:
    (answer,) = await convert_autoscalers([obj], f"autoscaling/{version}")
    return answer


async def test_the_use_of_the_processor_has_a_field_of_its_own():
    old = await converted(autoscaler(metrics=[CPU]), "v1")
    assert old["spec"] == {"maxReplicas": 5, "targetCPUUtilizationPercentage": 70}
    assert old["status"] == {"currentReplicas": 0, "desiredReplicas": 0}
    assert old["metadata"]["annotations"] == {"own": "one"}


async def test_nothing_is_lost_on_the_way_to_the_old_version_and_back():
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    obj = autoscaler(metrics=[CPU, MEMORY], behavior=behavior)
    obj["status"]["conditions"] = [{"type": "AbleToScale", "status": "True"}]
    old = await converted(obj, "v1")
    assert old["metadata"]["annotations"].keys() > {"autoscaling.alpha.kubernetes.io/metrics", "own"}
    assert await converted(old, "v2") == obj


async def test_an_annotation_that_is_no_json_is_dropped():
    old = await converted(autoscaler(metrics=[CPU]), "v1")
    old["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"] = "{"
    assert await converted(old, "v2") == autoscaler(metrics=[CPU])
