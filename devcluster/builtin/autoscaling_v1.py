"""HorizontalPodAutoscaler v1, the version of older clients, which knows CPU utilization only.

Annotations carry the rest of the stored version as JSON, so that a client of this version loses nothing when
it writes back an object that it has read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from devcluster.builtin.base import Object, child
from devcluster.builtin.policies import AutoscalerStrategy

if TYPE_CHECKING:
    from devcluster.errors import FieldError
    from devcluster.kinds.strategy import Context

__all__ = ["OldAutoscalerStrategy", "convert_autoscalers"]

OLD, NEW = "autoscaling/v1", "autoscaling/v2"
PREFIX = "autoscaling.alpha.kubernetes.io/"
KEPT = ("metrics", "behavior", "current-metrics", "conditions")
DEFAULT_UTILIZATION = 80
UTILIZATION, CURRENT_UTILIZATION = "targetCPUUtilizationPercentage", "currentCPUUtilizationPercentage"


async def convert_autoscalers(autoscalers: list[Object], api_version: str) -> list[Object]:
    """Convert autoscalers to `api_version`."""
    convert = _to_old if api_version == OLD else _to_new
    return [each if each.get("apiVersion") == api_version else convert(each) for each in autoscalers]


class OldAutoscalerStrategy(AutoscalerStrategy):
    """The rules of version 2 for objects of version 1."""

    def default(self, obj: Object) -> None:
        """Default to at least one pod, and to CPU utilization."""
        spec = child(obj, "spec")
        if spec.get("minReplicas") is None:
            spec["minReplicas"] = 1
        if spec.get(UTILIZATION) is None and f"{PREFIX}metrics" not in _annotations(obj):
            spec[UTILIZATION] = DEFAULT_UTILIZATION
        status = child(obj, "status")
        status.setdefault("currentReplicas", 0)
        status.setdefault("desiredReplicas", 0)

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        """Validate as version 2 does; errors name version 2's fields."""
        return super().validate_create(_to_new(new), context)

    def row(self, obj: Object) -> list[Any]:
        """Return the cells as version 2 does."""
        return super().row(_to_new(obj))


def _to_old(obj: Object) -> Object:
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    kept: Object = {}
    others = []
    for metric in spec.pop("metrics", None) or ():
        utilization = _of_processor(metric, "target")
        if utilization is not None and UTILIZATION not in spec:
            spec[UTILIZATION] = utilization
        else:
            others.append(metric)
    if others:
        kept["metrics"] = others
    if "behavior" in spec:
        kept["behavior"] = spec.pop("behavior")
    current = status.pop("currentMetrics", None) or []
    for metric in current:
        utilization = _of_processor(metric, "current")
        if utilization is not None:
            status[CURRENT_UTILIZATION] = utilization
    if current:
        kept["current-metrics"] = current
    if conditions := status.pop("conditions", None):
        kept["conditions"] = conditions
    status.setdefault("currentReplicas", 0)
    annotations = {f"{PREFIX}{name}": orjson.dumps(value).decode() for name, value in kept.items()}
    return _made(obj, OLD, {**_annotations(obj), **annotations}, spec, status)


def _to_new(obj: Object) -> Object:
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    annotations = dict(_annotations(obj))
    kept = {name: _taken(annotations, name) for name in KEPT}
    metrics = list(kept["metrics"] or ())
    utilization = spec.pop(UTILIZATION, None)
    if utilization is not None:
        target = {"type": "Utilization", "averageUtilization": utilization}
        metrics.insert(0, {"type": "Resource", "resource": {"name": "cpu", "target": target}})
    if metrics:
        spec["metrics"] = metrics
    if kept["behavior"]:
        spec["behavior"] = kept["behavior"]
    status.pop(CURRENT_UTILIZATION, None)
    status["currentMetrics"] = kept["current-metrics"]
    if kept["conditions"]:
        status["conditions"] = kept["conditions"]
    if not status.get("currentReplicas"):
        status.pop("currentReplicas", None)
    return _made(obj, NEW, annotations, spec, status)


def _made(obj: Object, api_version: str, annotations: Object, spec: Object, status: Object) -> Object:
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "annotations"}
    if annotations:
        metadata["annotations"] = annotations
    return {**obj, "apiVersion": api_version, "metadata": metadata, "spec": spec, "status": status}


def _annotations(obj: Object) -> Object:
    # An apply also converts parts of objects, which may have no metadata.
    return (obj.get("metadata") or {}).get("annotations") or {}


def _taken(annotations: Object, name: str) -> Any:
    """Remove one of our annotations and return its JSON value; None if it is not JSON."""
    try:
        return orjson.loads(annotations.pop(f"{PREFIX}{name}", "null"))
    except orjson.JSONDecodeError:
        return None


def _of_processor(metric: Object, part: str) -> int | None:
    """Return a metric's CPU utilization in percent, or None for another metric."""
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    utilization: int | None = (resource.get(part) or {}).get("averageUtilization")
    return utilization
