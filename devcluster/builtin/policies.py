"""Defaults and validation of budgets, autoscalers, PriorityClasses, quotas, LimitRanges and Leases."""

from __future__ import annotations

from typing import Any

import orjson

from devcluster.builtin.base import BuiltinStrategy, Object, PlainStrategy, StoredStrategy, child, columns
from devcluster.builtin.checks import (
    check_amount,
    check_at_most_all,
    check_int_or_percent,
    check_selector,
    round_up,
    value_of,
)
from devcluster.kinds.field import Field
from devcluster.names import label_key, path_segment
from devcluster.types.table import choices

METRIC_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")
SYSTEM_PRIORITIES = ("system-cluster-critical", "system-node-critical")
HIGHEST_PRIORITY = 1_000_000_000
SHOWN = 2
"""The maximum number of an autoscaler's metrics in a table."""


class DisruptionBudgetStrategy(BuiltinStrategy):
    """Strategy of PodDisruptionBudgets: the API server's defaults, validation and table columns."""

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

    def check(self, obj: Field) -> None:
        spec = obj["spec"]
        least, most = spec["minAvailable"], spec["maxUnavailable"]
        if least.is_set and most.is_set:
            shown = {
                "MinAvailable": least.value,
                "Selector": spec.get("selector"),
                "MaxUnavailable": most.value,
                "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
            }
            spec.invalid("minAvailable and maxUnavailable cannot be both set", shown)
        for bound in (least, most):
            check_int_or_percent(bound)
            check_at_most_all(bound)
        check_selector(spec["selector"])
        spec["unhealthyPodEvictionPolicy"].any_of(
            choices("policy.v1.PodDisruptionBudgetSpec.unhealthyPodEvictionPolicy")
        )

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        bounds = [str(spec.get(name, "N/A")) for name in ("minAvailable", "maxUnavailable")]
        return [*bounds, status.get("disruptionsAllowed", 0)]


FOUR_PODS = {"type": "Pods", "value": 4, "periodSeconds": 15}
DOUBLE = {"type": "Percent", "value": 100, "periodSeconds": 15}


class AutoscalerStrategy(BuiltinStrategy):
    """Strategy of HorizontalPodAutoscalers v2: the API server's defaults, validation and table columns."""

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

    def check(self, obj: Field) -> None:
        spec = obj["spec"]
        least, most = spec["minReplicas"], spec.at("maxReplicas", 0)
        if least.value < 1:
            least.invalid("must be greater than or equal to 1")
        if most.value < 1:
            most.required("must be set and greater than 0")
        if most.value < least.value:
            most.invalid("must be greater than or equal to `minReplicas`")
        target = spec["scaleTargetRef"]
        target["kind"].check_required(path_segment)
        target["name"].check_required(path_segment)
        if not target["apiVersion"]:
            target.at("apiVersion", "").invalid("apiVersion must specify API group")
        for metric in spec["metrics"]:
            kind = metric.at("type", "")
            if not kind:
                kind.required("must specify a metric source type")
            for _ in range(2):  # the real server reports it twice
                kind.any_of(METRIC_TYPES)

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
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
    """Strategy of PriorityClasses: the API server's defaults, validation and table columns."""

    columns = columns("Name | Value# | Global-Default? | Age | PreemptionPolicy")
    has_generation = True
    defaults = {"value": 0}
    nonzero = {"preemptionPolicy": "PreemptLowerPriority"}

    def check(self, obj: Field) -> None:
        name, value = obj["metadata"].at("name", ""), obj["value"]
        if name.value.startswith("system-"):
            if name.value not in SYSTEM_PRIORITIES:
                name.forbidden(
                    "priority class names with 'system-' prefix are reserved for system use only. error: "
                    f"{name.value} is not a known system priority class"
                )
        elif value.value > HIGHEST_PRIORITY:
            value.forbidden(f"maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}")
        obj["preemptionPolicy"].any_of(("PreemptLowerPriority", "Never"))

    def check_update(self, obj: Field, old: Field) -> None:
        if obj.get("value") != old.get("value"):
            obj["value"].forbidden("may not be changed in an update.")
        obj["preemptionPolicy"].check_unchanged(old.get("preemptionPolicy"))

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        return [obj.get("value", 0), bool(obj.get("globalDefault")), obj.get("preemptionPolicy", "")]


class LeaseStrategy(StoredStrategy):
    """Strategy of Leases: the API server's defaults, validation and table columns."""

    columns = columns("Name | Holder | Age")
    create_on_update = True
    unconditional_update = False
    defaults = {"spec": {}}

    def check(self, obj: Field) -> None:
        length = obj["spec"]["leaseDurationSeconds"]
        if length.is_set and length.value <= 0:
            length.invalid("must be greater than 0")
        obj["spec"].not_negative("leaseTransitions")

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        return [spec.get("holderIdentity") or ""]


class QuotaStrategy(BuiltinStrategy):
    """Strategy of ResourceQuotas: the API server's defaults, validation and table columns."""

    columns = columns("Name | Request | Limit | Age")

    def default(self, obj: Object) -> None:
        round_up(child(obj, "spec").get("hard"))
        child(obj, "status")

    def check(self, obj: Field) -> None:
        hard, scopes = obj["spec"]["hard"], obj["spec"]["scopes"]
        for name, amount in (hard.value or {}).items():
            check_amount(hard.key(name, amount), name)
        given = scopes.value or ()
        for scope in given:
            if scope not in SCOPES:
                scopes.invalid("unsupported scope")
            elif any(not name.endswith("pods") and not _allows(scope, name) for name in hard.value or ()):
                scopes.invalid("unsupported scope applied to resource")
        for pair in CONFLICTS:
            if pair <= {*given}:
                scopes.invalid("conflicting scopes")

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
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
    """Return whether a quota with this scope may limit the resource `name`, which must not be `pods`."""
    return scope not in {"BestEffort", "CrossNamespacePodAffinity"} and (
        name in {"cpu", "memory", "ephemeral-storage"} or name.startswith(("requests.", "limits."))
    )


class LimitRangeStrategy(PlainStrategy):
    """Strategy of LimitRanges: the API server's defaults, validation and table columns."""

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

    def check(self, obj: Field) -> None:
        seen: set[str] = set()
        for limit in obj["spec"]["limits"]:
            kind = limit.at("type", "")
            kind.check(label_key)
            if "/" not in kind.value and kind.value not in LIMITED:
                kind.invalid("must be a standard limit type or fully qualified")
            kind.check_unique(seen)
            _check_limit(limit, kind.value)
            _check_ratios(limit)


LIMITED = ("Container", "PersistentVolumeClaim", "Pod")
BOUNDS = (
    ("min", "max", "min", "min"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest"),
    ("min", "default", "default", "min"),
    ("default", "max", "default", "max"),
)
"""Pairs of fields of which the first must not exceed the second, with the field and value for the error."""
SHOWN_BOUNDS = {"defaultRequest": "default request value"}


def _check_limit(limit: Field, kind: str) -> None:
    if kind == "Pod":
        for name in ("default", "defaultRequest"):
            if limit[name]:
                limit[name].forbidden("may not be specified when `type` is 'Pod'")
    if kind == "PersistentVolumeClaim" and not any(
        "storage" in (limit.get(each) or ()) for each in ("min", "max")
    ):
        limit["limits"].required(
            "either minimum or maximum storage value is required, but neither was provided"
        )
    for low, high, field, shown in BOUNDS:
        lows, highs = limit.get(low) or {}, limit.get(high) or {}
        if kind == "Pod" and not {low, high} <= {"min", "max"}:
            continue
        texts = [SHOWN_BOUNDS.get(each, f"{each} value") for each in (low, high)]
        if (low, high) == ("defaultRequest", "default"):
            texts[1] = "default limit value"
        for name in sorted(lows.keys() & highs.keys()):
            if value_of(lows[name]) > value_of(highs[name]):
                text = f"{texts[0]} {lows[name]} is greater than {texts[1]} {highs[name]}"
                limit[field].key(name, limit.get(shown)[name]).invalid(text)


def _check_ratios(limit: Field) -> None:
    ratios = limit["maxLimitRequestRatio"]
    for name, ratio in sorted((ratios.value or {}).items()):
        least, most = (value_of((limit.get(each) or {}).get(name, 0)) for each in ("min", "max"))
        here = ratios.key(name, ratio)
        if value_of(ratio) < 1:
            here.invalid(f"ratio {ratio} is less than 1")
        elif least and most and value_of(ratio) > most / least:
            here.invalid(
                f"max limit/request ratio {ratio} is greater than max/min = {float(most / least):.6f}"
            )


OLD, NEW = "autoscaling/v1", "autoscaling/v2"
PREFIX = "autoscaling.alpha.kubernetes.io/"
KEPT = ("metrics", "behavior", "current-metrics", "conditions")
DEFAULT_UTILIZATION = 80
UTILIZATION, CURRENT_UTILIZATION = "targetCPUUtilizationPercentage", "currentCPUUtilizationPercentage"


async def convert_autoscalers(autoscalers: list[Object], api_version: str) -> list[Object]:
    """Convert HorizontalPodAutoscalers to `api_version`."""
    convert = _to_old if api_version == OLD else _to_new
    return [each if each.get("apiVersion") == api_version else convert(each) for each in autoscalers]


class OldAutoscalerStrategy(AutoscalerStrategy):
    """Strategy of HorizontalPodAutoscalers v1: defaults of v1, validation and table columns of v2."""

    def default(self, obj: Object) -> None:
        spec = child(obj, "spec")
        if spec.get("minReplicas") is None:
            spec["minReplicas"] = 1
        if spec.get(UTILIZATION) is None and f"{PREFIX}metrics" not in _annotations(obj):
            spec[UTILIZATION] = DEFAULT_UTILIZATION
        status = child(obj, "status")
        status.setdefault("currentReplicas", 0)
        status.setdefault("desiredReplicas", 0)

    def check(self, obj: Field) -> None:
        super().check(Field(_to_new(obj.value), above=obj))

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        new = _to_new(obj)
        return super().cells(new, new["spec"], new["status"])


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
    # An apply also converts parts of objects, which may lack metadata.
    return (obj.get("metadata") or {}).get("annotations") or {}


def _taken(annotations: Object, name: str) -> Any:
    """Remove an annotation with fields of v2; return its JSON value, or None if it is missing or not JSON."""
    try:
        return orjson.loads(annotations.pop(f"{PREFIX}{name}", "null"))
    except orjson.JSONDecodeError:
        return None


def _of_processor(metric: Object, part: str) -> int | None:
    """Return the CPU utilization (percent) in `part` (`target` or `current`) of a metric, or None."""
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    utilization: int | None = (resource.get(part) or {}).get("averageUtilization")
    return utilization
