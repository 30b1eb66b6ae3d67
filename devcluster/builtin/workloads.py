"""Defaults, validation and table columns of the kinds with a pod template, such as Deployments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devcluster.builtin.base import (
    BuiltinStrategy,
    Object,
    StoredStrategy,
    child,
    columns,
    container_cells,
    labels_cell,
    selector_cell,
)
from devcluster.builtin.checks import (
    check_at_most_all,
    check_int_or_percent,
    check_selector,
    percent_of,
    selector_matches,
)
from devcluster.builtin.pod_checks import check_template
from devcluster.builtin.pod_defaults import default_pod_spec, name_warnings, pod_warnings
from devcluster.kinds.field import Field
from devcluster.kinds.strategy import Context
from devcluster.names import dns_label
from devcluster.types.table import choices


class WorkloadStrategy(BuiltinStrategy):
    """Base class for the defaults, validation and table columns of kinds with a pod template in the spec."""

    has_generation = True
    names_pods = True
    """Whether the object's name becomes part of host names that users do not choose."""

    def default(self, obj: Object) -> None:
        default_template(child(obj, "spec"))
        child(obj, "status")
        super().default(obj)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        if old is not None and old["metadata"].get("generation") == new["metadata"].get("generation"):
            return []
        warnings = name_warnings(new["metadata"].get("name", "")) if self.names_pods and old is None else []
        return warnings + pod_warnings(new["spec"]["template"]["spec"], "spec.template.spec")


def _default_rolling_update(strategy: Object, unavailable: int | str, surge: int | str) -> None:
    if strategy["type"] == "RollingUpdate":
        rolling = child(strategy, "rollingUpdate")
        rolling.setdefault("maxUnavailable", unavailable)
        rolling.setdefault("maxSurge", surge)


def default_template(spec: Object) -> None:
    """Set the defaults of a workload's pod template."""
    template = child(spec, "template")
    child(template, "metadata")
    default_pod_spec(child(template, "spec"))


def check_selected(spec: Field, kind: str) -> None:
    """Check the template and the selector; the selector is required and must match the template's labels."""
    selector, before = spec["selector"], len(spec.errors)
    check_selector(selector)
    if not selector.is_set:
        selector.required()
        check_match(spec)
    elif not selector["matchLabels"] and not selector["matchExpressions"]:
        selector.invalid(f"empty selector is invalid for {kind}")
    elif any(each.field.endswith((".operator", ".values")) for each in spec.errors[before:]):
        selector.invalid("invalid label selector")
        return
    else:
        check_match(spec)
    check_template(spec["template"])


def check_match(spec: Field) -> None:
    """Check that the selector matches the labels of the template; a missing selector never matches."""
    labels = spec["template"]["metadata"].get("labels") or {}
    if spec["selector"].is_set and selector_matches(spec.get("selector"), labels):
        return
    shown = dict(sorted(labels.items())) or None
    spec.at("template.metadata.labels").invalid("`selector` does not match template `labels`", shown)


def check_restarts_always(spec: Field, kind: str) -> None:
    """Check that the template's restart policy is Always."""
    pod = spec["template"]["spec"]
    pod.at("restartPolicy", "").any_of(("Always",))
    if pod["activeDeadlineSeconds"].is_set:
        pod["activeDeadlineSeconds"].forbidden(f"activeDeadlineSeconds in {kind} is not Supported")


def shown_strategy(strategy: Field) -> Object:
    """Return a workload's update strategy with Go's internal field names, as error messages show it."""
    return {"Type": strategy.get("type", ""), "RollingUpdate": strategy.get("rollingUpdate")}


def check_counts(status: Field, *limited: str, ready_limit: str = "readyReplicas") -> None:
    """Check that no count in a status is negative, and no count named in `limited` is above `replicas`.

    `availableReplicas` must not be above `readyReplicas`; `ready_limit` is the limit's name in the error.
    """
    numbers = status.value or {}
    status.not_negative(*numbers)
    for name in limited:
        if numbers.get(name, 0) > numbers.get("replicas", 0):
            status[name].invalid("cannot be greater than status.replicas", numbers.get(name, 0))
    available = numbers.get("availableReplicas", 0)
    if available > numbers.get("readyReplicas", 0):
        status["availableReplicas"].invalid(f"cannot be greater than {ready_limit}", available)


COLUMNS = "Name | Desired# | Current# | Ready# | Age | Containers* | Images* | Selector*"


class ReplicaSetStrategy(WorkloadStrategy):
    """Strategy of ReplicaSets: the API server's defaults, validation and table columns."""

    columns = columns(COLUMNS)
    defaults = {"spec.replicas": 1, "status.replicas": 0}
    immutable: tuple[str, ...] = ("spec.selector",)

    def check(self, obj: Field) -> None:
        spec = obj["spec"]
        spec.not_negative("replicas", "minReadySeconds")
        check_selected(spec, "deployment")
        check_restarts_always(spec, "ReplicaSet")

    def check_status(self, status: Field) -> None:
        check_counts(status, "fullyLabeledReplicas", "readyReplicas", "availableReplicas")

    def fields(self, obj: Object) -> Mapping[str, str]:
        return {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))}

    def selector_text(self, spec: Object) -> str:
        return selector_cell(spec.get("selector"))

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        return [
            spec.get("replicas", 0),
            status.get("replicas", 0),
            status.get("readyReplicas", 0),
            *container_cells(spec.get("template")),
            self.selector_text(spec),
        ]


class ReplicationControllerStrategy(ReplicaSetStrategy):
    """Strategy (defaults, validation) of ReplicationControllers; devcluster never creates their pods."""

    orphans_by_default = True
    immutable = ()

    def default(self, obj: Object) -> None:
        super().default(obj)
        labels = (obj["spec"]["template"].get("metadata") or {}).get("labels")
        if labels:
            if not obj["spec"].get("selector"):
                obj["spec"]["selector"] = dict(labels)
            if not obj["metadata"].get("labels"):
                obj["metadata"]["labels"] = dict(labels)

    def check(self, obj: Field) -> None:
        obj["spec"].not_negative("replicas", "minReadySeconds")
        if not obj["spec"]["selector"]:
            obj["spec"]["selector"].required()

    def selector_text(self, spec: Object) -> str:
        return labels_cell(spec.get("selector"))


class DeploymentStrategy(WorkloadStrategy):
    """Strategy of Deployments: the API server's defaults, validation and table columns."""

    status_reset = ("spec", ("metadata", "labels"))
    defaults = {
        "spec.replicas": 1,
        "spec.strategy": {},
        "spec.revisionHistoryLimit": 10,
        "spec.progressDeadlineSeconds": 600,
    }
    nonzero = {"spec.strategy.type": "RollingUpdate"}
    immutable = ("spec.selector",)
    columns = columns("Name | Ready | Up-to-date | Available | Age | Containers* | Images* | Selector*")

    def default(self, obj: Object) -> None:
        super().default(obj)
        _default_rolling_update(obj["spec"]["strategy"], "25%", "25%")

    def check(self, obj: Field) -> None:
        spec = obj["spec"]
        spec.not_negative("replicas")
        check_selected(spec, "deployment")
        check_restarts_always(spec, "ReplicaSet")
        _check_deployment_strategy(spec["strategy"])
        spec.not_negative("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
        if spec.get("progressDeadlineSeconds") <= spec.get("minReadySeconds", 0):
            spec["progressDeadlineSeconds"].invalid("must be greater than minReadySeconds")

    def check_status(self, status: Field) -> None:
        check_counts(status, "updatedReplicas", "readyReplicas", "availableReplicas")

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        return [
            f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
            status.get("updatedReplicas", 0),
            status.get("availableReplicas", 0),
            *container_cells(spec.get("template")),
            selector_cell(spec.get("selector")).replace("<none>", ""),
        ]


def _check_deployment_strategy(strategy: Field) -> None:
    rolling = strategy["rollingUpdate"]
    if strategy.get("type") == "Recreate":
        if rolling.is_set:
            rolling.forbidden("may not be specified when strategy `type` is 'Recreate'")
        return
    if strategy.get("type") != "RollingUpdate":
        strategy.unsupported(choices("apps.v1.DeploymentStrategy.type"), shown_strategy(strategy))
        return
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    check_int_or_percent(unavailable)
    check_int_or_percent(surge)
    if not _number(unavailable.value) and not _number(surge.value):
        unavailable.invalid("may not be 0 when `maxSurge` is 0")
    check_at_most_all(unavailable)


def _number(value: Any) -> int:
    return value if isinstance(value, int) else percent_of(value) or 0


STRATEGIES = ("RollingUpdate", "OnDelete")
GENERATION = "deprecated.daemonset.template.generation"
SHOWN = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")


class DaemonSetStrategy(WorkloadStrategy):
    """Strategy of DaemonSets: the API server's defaults, validation and table columns."""

    names_pods = False
    defaults = {
        "spec.updateStrategy": {},
        "spec.revisionHistoryLimit": 10,
        "status.currentNumberScheduled": 0,
        "status.numberMisscheduled": 0,
        "status.desiredNumberScheduled": 0,
        "status.numberReady": 0,
    }
    nonzero = {"spec.updateStrategy.type": "RollingUpdate"}
    columns = columns(
        "Name | Desired# | Current# | Ready# | Up-to-date# | Available# | Node Selector | Age "
        "| Containers* | Images* | Selector*"
    )

    def begin(self, new: Object, context: Context) -> None:
        annotations = child(new["metadata"], "annotations")
        annotations[GENERATION] = "1"

    def prepare_update(self, new: Object, old: Object, context: Context) -> None:
        super().prepare_update(new, old, context)
        before = (old["metadata"].get("annotations") or {}).get(GENERATION, "0")
        changed = new["spec"]["template"] != old["spec"]["template"]
        number = int(before) + changed if before.isdigit() else 1
        new["metadata"]["annotations"] = {
            **(new["metadata"].get("annotations") or {}),
            GENERATION: str(number),
        }

    def default(self, obj: Object) -> None:
        super().default(obj)
        annotations = obj["metadata"].get("annotations") or {}
        obj["metadata"]["annotations"] = {GENERATION: "0", **annotations}
        _default_rolling_update(obj["spec"]["updateStrategy"], 1, 0)

    def check(self, obj: Field) -> None:
        spec = obj["spec"]
        selector = spec["selector"]
        check_selector(selector)
        check_match(spec)
        if selector.is_set and not selector["matchLabels"] and not selector["matchExpressions"]:
            selector.invalid("empty selector is invalid for daemonset")
        check_template(spec["template"])
        check_restarts_always(spec, "DaemonSet")
        spec.not_negative("minReadySeconds")
        _check_daemon_strategy(spec["updateStrategy"])
        spec.not_negative("revisionHistoryLimit")

    def check_update(self, obj: Field, old: Field) -> None:
        obj["spec"]["selector"].check_unchanged(old["spec"].get("selector"))
        self.check(obj)

    def check_status(self, status: Field) -> None:
        status.not_negative(*(name for name in status.value or () if name != "collisionCount"))

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        template = spec.get("template") or {}
        return [
            *(status.get(name, 0) for name in SHOWN),
            status.get("numberAvailable", 0),
            labels_cell((template.get("spec") or {}).get("nodeSelector")),
            *container_cells(template),
            selector_cell(spec.get("selector")),
        ]


def _check_daemon_strategy(strategy: Field) -> None:
    if strategy.get("type") == "OnDelete":
        return
    if strategy.get("type") != "RollingUpdate":
        strategy.unsupported(STRATEGIES, shown_strategy(strategy))
        return
    unavailable, surge = (strategy["rollingUpdate"][name] for name in ("maxUnavailable", "maxSurge"))
    for check in (check_int_or_percent, check_at_most_all):
        check(unavailable)
        check(surge)
    if _number(unavailable.value) and _number(surge.value):
        surge.invalid("may not be set when maxUnavailable is non-zero")
    elif not _number(unavailable.value) and not _number(surge.value):
        unavailable.required("cannot be 0 when maxSurge is 0")


CHANGEABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
FORBIDDEN = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


class StatefulSetStrategy(WorkloadStrategy):
    """Strategy of StatefulSets: the API server's defaults, validation and table columns."""

    names_pods = False
    defaults = {
        "spec.persistentVolumeClaimRetentionPolicy": {},
        "spec.persistentVolumeClaimRetentionPolicy.whenDeleted": "Retain",
        "spec.persistentVolumeClaimRetentionPolicy.whenScaled": "Retain",
        "spec.replicas": 1,
        "spec.revisionHistoryLimit": 10,
        "spec.serviceName": "",
        "spec.updateStrategy": {},
        "spec.volumeClaimTemplates.*.apiVersion": "v1",
        "spec.volumeClaimTemplates.*.kind": "PersistentVolumeClaim",
        "spec.volumeClaimTemplates.*.metadata": {},
        "spec.volumeClaimTemplates.*.spec": {},
        "spec.volumeClaimTemplates.*.status": {},
        "spec.volumeClaimTemplates.*.status.phase": "Pending",
        "status.replicas": 0,
        "status.availableReplicas": 0,
    }
    nonzero = {
        "spec.podManagementPolicy": "OrderedReady",
        "spec.volumeClaimTemplates.*.spec.volumeMode": "Filesystem",
    }
    columns = columns("Name | Ready | Age | Containers* | Images*")

    def default(self, obj: Object) -> None:
        super().default(obj)
        strategy = obj["spec"]["updateStrategy"]
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
            child(strategy, "rollingUpdate")
        if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
            strategy["rollingUpdate"].setdefault("partition", 0)

    def check(self, obj: Field) -> None:
        self._check_spec(obj["spec"])
        obj["spec"]["serviceName"].check_given(dns_label)

    def check_update(self, obj: Field, old: Field) -> None:
        self._check_spec(obj["spec"])
        if _immutable_part(obj.get("spec")) != _immutable_part(old.get("spec")):
            obj["spec"].forbidden(FORBIDDEN)

    def _check_spec(self, spec: Field) -> None:
        if spec.get("podManagementPolicy") not in {"OrderedReady", "Parallel"}:
            spec["podManagementPolicy"].invalid("must be 'OrderedReady' or 'Parallel'")
        _check_update_strategy(spec["updateStrategy"])
        for name in ("whenDeleted", "whenScaled"):
            spec["persistentVolumeClaimRetentionPolicy"][name].any_of(("Retain", "Delete"))
        spec.not_negative("replicas", "minReadySeconds")
        spec["ordinals"].not_negative("start")
        with_claims = Field(_with_claims(spec.value), "spec")
        check_selected(with_claims, "statefulset")
        check_restarts_always(with_claims, "StatefulSet")
        spec.errors += with_claims.errors

    def check_status(self, status: Field) -> None:
        limited = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        check_counts(status, *limited, ready_limit="status.readyReplicas")

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        return [
            f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
            *container_cells(spec.get("template")),
        ]


def _immutable_part(spec: Object) -> Object:
    return {
        key: value for key, value in spec.items() if key not in CHANGEABLE and value not in (None, "", [], {})
    }


def _with_claims(spec: Object) -> Object:
    # Each claim template gives every pod a volume with the template's name, for containers to mount.
    template = spec["template"]
    claims = [each["metadata"].get("name", "") for each in spec.get("volumeClaimTemplates") or ()]
    pod = {**template["spec"]}
    pod["volumes"] = [
        *({"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims),
        *(each for each in pod.get("volumes") or () if each.get("name") not in claims),
    ]
    for name in ("hostname", "subdomain"):
        pod.pop(name, None)
    return {**spec, "template": {**template, "spec": pod}}


def _check_update_strategy(strategy: Field) -> None:
    rolling = strategy["rollingUpdate"]
    if strategy.get("type") == "OnDelete":
        if rolling.is_set:
            rolling.invalid("only allowed for updateStrategy 'RollingUpdate'")
    elif strategy.get("type") != "RollingUpdate":
        strategy.invalid("must be 'RollingUpdate' or 'OnDelete'", shown_strategy(strategy))
    else:
        rolling.not_negative("partition")
        check_int_or_percent(rolling["maxUnavailable"])
        check_at_most_all(rolling["maxUnavailable"])


class ControllerRevisionStrategy(StoredStrategy):
    """Strategy (defaults, validation, table columns) of ControllerRevisions; their data cannot change."""

    columns = columns("Name | Controller | Revision | Age")
    defaults = {"revision": 0}

    def check(self, obj: Field) -> None:
        obj.not_negative("revision")
        data = obj["data"]
        if not data.is_set:
            data.required("data is mandatory")
        elif not isinstance(data.value, dict):
            data.required("data must be a valid JSON object")

    def check_update(self, obj: Field, old: Field) -> None:
        obj["data"].check_unchanged(old.get("data"))

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        owners = [each for each in obj["metadata"].get("ownerReferences") or () if each.get("controller")]
        shown = "<none>"
        if owners:
            group = owners[0].get("apiVersion", "").rpartition("/")[0]
            kind = owners[0].get("kind", "").lower()
            shown = f"{kind}.{group}/{owners[0].get('name')}" if group else f"{kind}/{owners[0].get('name')}"
        return [shown, obj.get("revision", 0)]


class PodTemplateStrategy(StoredStrategy):
    """Strategy (defaults, validation, table columns) of PodTemplates; no controller acts on them."""

    columns = columns("Name | Containers | Images | Pod Labels")
    has_generation = True

    def default(self, obj: Object) -> None:
        default_template(obj)

    def check(self, obj: Field) -> None:
        check_template(obj["template"])

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        template = obj.get("template") or {}
        labels = labels_cell((template.get("metadata") or {}).get("labels"))
        return [*container_cells(template), labels]
