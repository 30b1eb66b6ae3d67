"""Policy kinds: disruption budgets, autoscalers, priority classes, quotas, limit ranges, leases."""

from __future__ import annotations

from typing import Any

import orjson

from devcluster.builtin.base import BuiltinStrategy, Object, PlainStrategy, StoredStrategy, child, columns
from devcluster.builtin.checks import (
    amount_errors,
    at_most_100_percent,
    int_or_percent,
    label_selector,
    non_negative,
    round_up,
    texts,
    value_of,
)
from devcluster.errors import (
    FieldError,
    field_duplicate,
    field_forbidden,
    field_invalid,
    field_required,
    field_unsupported,
)
from devcluster.kinds.strategy import Context
from devcluster.names import label_key, path_segment
from devcluster.types.table import choices

METRIC_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")
EVICTION_POLICIES = choices("policy.v1.PodDisruptionBudgetSpec.unhealthyPodEvictionPolicy")
SYSTEM_PRIORITIES = ("system-cluster-critical", "system-node-critical")
HIGHEST_PRIORITY = 1_000_000_000
SHOWN = 2
"""How many of an autoscaler's metrics a table shows."""


class DisruptionBudgetStrategy(BuiltinStrategy):
    """The rules of disruption budgets."""

    unconditional_update = False
    columns = columns("Name | Min Available | Max Unavailable | Allowed Disruptions# | Age")
    has_generation = True
    defaults = {
        "spec": {},
        "status": {},
        "status.disruptionsAllowed": 0,
        "status.currentHealthy": 0,
        "status.desiredHealthy": 0,
        "status.expectedPods": 0,
    }

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        spec = new["spec"]
        wrong: list[FieldError] = []
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if least is not None and most is not None:
            shown = {
                "MinAvailable": least,
                "Selector": spec.get("selector"),
                "MaxUnavailable": most,
                "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
            }
            wrong.append(field_invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
        for name, value in (("minAvailable", least), ("maxUnavailable", most)):
            if value is not None:
                wrong += int_or_percent(value, f"spec.{name}") + at_most_100_percent(value, f"spec.{name}")
        wrong += label_selector(spec.get("selector"), "spec.selector")
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in EVICTION_POLICIES:
            wrong.append(field_unsupported("spec.unhealthyPodEvictionPolicy", policy, EVICTION_POLICIES))
        return wrong

    def cells(self, obj: Object) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        bounds = [str(spec.get(name, "N/A")) for name in ("minAvailable", "maxUnavailable")]
        allowed = status.get("disruptionsAllowed", 0)
        return [*bounds, allowed]


FOUR_PODS = {"type": "Pods", "value": 4, "periodSeconds": 15}
DOUBLE = {"type": "Percent", "value": 100, "periodSeconds": 15}


class AutoscalerStrategy(BuiltinStrategy):
    """The rules of autoscalers."""

    columns = columns("Name | Reference | Targets | MinPods | MaxPods | Replicas | Age")
    defaults = {
        "spec": {},
        "spec.minReplicas": 1,
        "status": {},
        "status.currentMetrics": None,
        "status.desiredReplicas": 0,
    }

    def default(self, obj: Object) -> None:
        super().default(obj)
        spec = obj["spec"]
        if not spec.get("metrics"):
            target = {"type": "Utilization", "averageUtilization": 80}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
        if spec.get("behavior"):
            up, down = (child(spec["behavior"], name) for name in ("scaleUp", "scaleDown"))
            up.setdefault("stabilizationWindowSeconds", 0)
            for rules, policies in ((up, (FOUR_PODS, DOUBLE)), (down, (DOUBLE,))):
                rules.setdefault("selectPolicy", "Max")
                if not rules.get("policies"):
                    rules["policies"] = [dict(each) for each in policies]

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        spec = new["spec"]
        least, most = spec["minReplicas"], spec.get("maxReplicas", 0)
        wrong: list[FieldError] = []
        if least < 1:
            wrong.append(field_invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
        if most < 1:
            wrong.append(field_required("spec.maxReplicas", "must be set and greater than 0"))
        if most < least:
            text = "must be greater than or equal to `minReplicas`"
            wrong.append(field_invalid("spec.maxReplicas", most, text))
        target = spec.get("scaleTargetRef") or {}
        for name in ("kind", "name"):
            value = target.get(name, "")
            path = f"spec.scaleTargetRef.{name}"
            wrong += texts(path_segment(value), path, value) if value else [field_required(path)]
        version = target.get("apiVersion", "")
        if not version:
            text = "apiVersion must specify API group"
            wrong.append(field_invalid("spec.scaleTargetRef.apiVersion", version, text))
        for index, metric in enumerate(spec.get("metrics") or ()):
            path, kind = f"spec.metrics[{index}].type", metric.get("type", "")
            if not kind:
                wrong.append(field_required(path, "must specify a metric source type"))
            if kind not in METRIC_TYPES:
                wrong += [field_unsupported(path, kind, METRIC_TYPES)] * 2  # the real server says it twice
        return wrong

    def cells(self, obj: Object) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        target = spec.get("scaleTargetRef") or {}
        current = [*(status.get("currentMetrics") or ()), *[{}] * len(spec.get("metrics") or ())]
        metrics = [_metric_cell(*pair) for pair in zip(spec.get("metrics") or (), current, strict=False)]
        more = f" + {len(metrics) - SHOWN} more..." if len(metrics) > SHOWN else ""
        return [
            f"{target.get('kind', '')}/{target.get('name', '')}",
            (", ".join(metrics[:SHOWN]) or "<none>") + more,
            str(spec["minReplicas"]) if spec.get("minReplicas") is not None else "<unset>",
            spec.get("maxReplicas", 0),
            status.get("currentReplicas", 0),
        ]


def _metric_cell(metric: Object, current: Object) -> str:
    source, now = (_source(each) for each in (metric, current))
    target, found = source.get("target") or {}, now.get("current") or {}
    shown, had = (each.get("averageValue") or each.get("value") for each in (target, found))
    if target.get("averageUtilization") is not None:
        shown, had = (
            None if each is None else f"{each}%"
            for each in (target["averageUtilization"], found.get("averageUtilization"))
        )
    shown, had = shown or "<auto>", had or "<unknown>"
    if metric.get("type") in {"Resource", "ContainerResource"}:
        return f"{source.get('name', '')}: {had}/{shown}"
    average = " (avg)" if target.get("averageValue") and metric.get("type") != "Pods" else ""
    return f"{had}/{shown}{average}"


def _source(metric: Object) -> Object:
    return next((value for value in metric.values() if isinstance(value, dict)), {})


class PriorityClassStrategy(StoredStrategy):
    """The rules of priority classes."""

    columns = columns("Name | Value# | Global-Default? | Age | PreemptionPolicy")
    has_generation = True
    defaults = {"value": 0}
    nonzero = {"preemptionPolicy": "PreemptLowerPriority"}

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        name, value = new["metadata"].get("name", ""), new["value"]
        wrong: list[FieldError] = []
        if name.startswith("system-"):
            if name not in SYSTEM_PRIORITIES:
                text = (
                    "priority class names with 'system-' prefix are reserved for system use only. error: "
                    f"{name} is not a known system priority class"
                )
                wrong.append(field_forbidden("metadata.name", text))
        elif value > HIGHEST_PRIORITY:
            text = f"maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}"
            wrong.append(field_forbidden("value", text))
        policies = ("PreemptLowerPriority", "Never")
        if new["preemptionPolicy"] not in policies:
            wrong.append(field_unsupported("preemptionPolicy", new["preemptionPolicy"], policies))
        return wrong

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        wrong: list[FieldError] = []
        if new["value"] != old.get("value"):
            wrong.append(field_forbidden("value", "may not be changed in an update."))
        if new["preemptionPolicy"] != old.get("preemptionPolicy"):
            wrong.append(field_invalid("preemptionPolicy", new["preemptionPolicy"], "field is immutable"))
        return wrong

    def cells(self, obj: Object) -> list[Any]:
        default, policy = bool(obj.get("globalDefault")), obj.get("preemptionPolicy", "")
        return [obj.get("value", 0), default, policy]


class LeaseStrategy(StoredStrategy):
    """The rules of leases."""

    columns = columns("Name | Holder | Age")
    create_on_update = True
    unconditional_update = False
    defaults = {"spec": {}}

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        spec = new["spec"]
        length = spec.get("leaseDurationSeconds")
        wrong: list[FieldError] = []
        if length is not None and length <= 0:
            wrong.append(field_invalid("spec.leaseDurationSeconds", length, "must be greater than 0"))
        return wrong + non_negative(spec, "spec", "leaseTransitions")

    def cells(self, obj: Object) -> list[Any]:
        holder = (obj.get("spec") or {}).get("holderIdentity") or ""
        return [holder]


class QuotaStrategy(BuiltinStrategy):
    """The rules of quotas."""

    columns = columns("Name | Request | Limit | Age")

    def default(self, obj: Object) -> None:
        round_up(child(obj, "spec").get("hard"))
        child(obj, "status")

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        spec = new["spec"]
        hard, scopes = spec.get("hard") or {}, spec.get("scopes") or ()
        wrong = [
            wrong
            for name, amount in hard.items()
            for wrong in amount_errors(name, amount, f"spec.hard[{name}]")
        ]
        for scope in scopes:
            if scope not in SCOPES:
                wrong.append(field_invalid("spec.scopes", scopes, "unsupported scope"))
            elif any(not name.endswith("pods") and not _allows(scope, name) for name in hard):
                wrong.append(field_invalid("spec.scopes", scopes, "unsupported scope applied to resource"))
        conflicts = [pair for pair in CONFLICTS if pair <= {*scopes}]
        return wrong + [field_invalid("spec.scopes", scopes, "conflicting scopes") for _ in conflicts]

    def cells(self, obj: Object) -> list[Any]:
        status = obj.get("status") or {}
        used = status.get("used") or {}
        cells: tuple[list[str], list[str]] = ([], [])
        for name, hard in sorted((status.get("hard") or {}).items()):
            cells[name.startswith("limits.")].append(f"{name}: {used.get(name, '0')}/{hard}")
        return [*map(", ".join, cells)]


SCOPES = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
)
CONFLICTS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})


def _allows(scope: str, name: str) -> bool:
    """Return whether a scope can limit a resource other than the number of pods."""
    return scope not in {"BestEffort", "CrossNamespacePodAffinity"} and (
        name in {"cpu", "memory", "ephemeral-storage"} or name.startswith(("requests.", "limits."))
    )


class LimitRangeStrategy(PlainStrategy):
    """The rules of limit ranges."""

    create_on_update = True

    def default(self, obj: Object) -> None:
        for item in child(obj, "spec").get("limits") or ():
            if item.get("type") != "Container":
                continue
            limits = {**(item.get("max") or {}), **(item.get("default") or {})}
            requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
            for name, values in (("default", limits), ("defaultRequest", requests)):
                if values:
                    item[name] = values

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        wrong: list[FieldError] = []
        seen: set[str] = set()
        for index, limit in enumerate(new["spec"].get("limits") or ()):
            path, kind = f"spec.limits[{index}]", limit.get("type", "")
            wrong += texts(label_key(kind), f"{path}.type", kind)
            if "/" not in kind and kind not in LIMITED:
                text = "must be a standard limit type or fully qualified"
                wrong.append(field_invalid(f"{path}.type", kind, text))
            if kind in seen:
                wrong.append(field_duplicate(f"{path}.type", kind))
            seen.add(kind)
            wrong += _limit_errors(limit, path)
        return wrong


LIMITED = ("Container", "PersistentVolumeClaim", "Pod")
BOUNDS = (
    ("min", "min value", "max", "max value", "min", "min"),
    ("min", "min value", "defaultRequest", "default request value", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "default request value", "max", "max value", "defaultRequest", "defaultRequest"),
    (
        "defaultRequest",
        "default request value",
        "default",
        "default limit value",
        "defaultRequest",
        "defaultRequest",
    ),
    ("min", "min value", "default", "default value", "default", "min"),
    ("default", "default value", "max", "max value", "default", "max"),
)
"""What must not be larger than what, and the field and value that an error names."""


def _limit_errors(limit: Object, path: str) -> list[FieldError]:
    wrong: list[FieldError] = []
    if limit.get("type") == "Pod":
        text = "may not be specified when `type` is 'Pod'"
        wrong += [
            field_forbidden(f"{path}.{each}", text)
            for each in ("default", "defaultRequest")
            if limit.get(each)
        ]
    if limit.get("type") == "PersistentVolumeClaim" and not any(
        "storage" in (limit.get(each) or {}) for each in ("min", "max")
    ):
        text = "either minimum or maximum storage value is required, but neither was provided"
        wrong.append(field_required(f"{path}.limits", text))
    for low, low_text, high, high_text, field, shown in BOUNDS:
        lows, highs = limit.get(low) or {}, limit.get(high) or {}
        if limit.get("type") == "Pod" and not {low, high} <= {"min", "max"}:
            continue
        for name in sorted(lows.keys() & highs.keys()):
            if value_of(lows[name]) > value_of(highs[name]):
                text = f"{low_text} {lows[name]} is greater than {high_text} {highs[name]}"
                wrong.append(field_invalid(f"{path}.{field}[{name}]", limit[shown][name], text))
    for name, ratio in sorted((limit.get("maxLimitRequestRatio") or {}).items()):
        here = f"{path}.maxLimitRequestRatio[{name}]"
        least, most = (value_of((limit.get(each) or {}).get(name, 0)) for each in ("min", "max"))
        if value_of(ratio) < 1:
            wrong.append(field_invalid(here, ratio, f"ratio {ratio} is less than 1"))
        elif least and most and value_of(ratio) > most / least:
            text = f"max limit/request ratio {ratio} is greater than max/min = {float(most / least):.6f}"
            wrong.append(field_invalid(here, ratio, text))
    return wrong


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
        spec = child(obj, "spec")
        if spec.get("minReplicas") is None:
            spec["minReplicas"] = 1
        if spec.get(UTILIZATION) is None and f"{PREFIX}metrics" not in _annotations(obj):
            spec[UTILIZATION] = DEFAULT_UTILIZATION
        status = child(obj, "status")
        status.setdefault("currentReplicas", 0)
        status.setdefault("desiredReplicas", 0)

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        return super().validate_create(_to_new(new), context)

    def cells(self, obj: Object) -> list[Any]:
        return super().cells(_to_new(obj))


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
