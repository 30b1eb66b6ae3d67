"""Workload kinds, which make pods of a template."""

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
    at_most_100_percent,
    immutable,
    int_or_percent,
    label_selector,
    non_negative,
    percent_of,
    selector_matches,
    texts,
)
from devcluster.builtin.pod_checks import pod_template
from devcluster.builtin.pod_defaults import default_pod_spec, name_warnings, pod_warnings
from devcluster.errors import FieldError, field_forbidden, field_invalid, field_required, field_unsupported
from devcluster.kinds.strategy import Context
from devcluster.names import dns_label
from devcluster.types.table import choices


class WorkloadStrategy(BuiltinStrategy):
    """A kind that makes pods of `spec.template`."""

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
    """Set the defaults of a workload's template."""
    template = child(spec, "template")
    child(template, "metadata")
    default_pod_spec(child(template, "spec"))


def selected(spec: Object, kind: str, path: str = "spec") -> list[FieldError]:
    """Check the template and the selector, which is required and must match the template."""
    selector, template = spec.get("selector"), spec["template"]
    wrong: list[FieldError] = []
    if selector is None:
        wrong.append(field_required(f"{path}.selector"))
        wrong += mismatch(selector, template, path)
    else:
        bad = label_selector(selector, f"{path}.selector")
        wrong += bad
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            wrong.append(field_invalid(f"{path}.selector", selector, f"empty selector is invalid for {kind}"))
        elif any(error.field.endswith((".operator", ".values")) for error in bad):
            return [*wrong, field_invalid(f"{path}.selector", selector, "invalid label selector")]
        else:
            wrong += mismatch(selector, template, path)
    return wrong + pod_template(template, f"{path}.template")


def mismatch(selector: Object | None, template: Mapping[str, Any], path: str = "spec") -> list[FieldError]:
    """Check that a selector matches its template's labels; no selector matches none."""
    labels = (template.get("metadata") or {}).get("labels") or {}
    if selector is not None and selector_matches(selector, labels):
        return []
    shown = dict(sorted(labels.items())) or None
    text = "`selector` does not match template `labels`"
    return [field_invalid(f"{path}.template.metadata.labels", shown, text)]


def restarts_always(spec: Object, kind: str, path: str = "spec") -> list[FieldError]:
    """Check that the template's restart policy is Always."""
    wrong: list[FieldError] = []
    pod = spec["template"]["spec"]
    policy = pod.get("restartPolicy", "")
    if policy != "Always":
        wrong.append(field_unsupported(f"{path}.template.spec.restartPolicy", policy, ["Always"]))
    if pod.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        wrong.append(field_forbidden(f"{path}.template.spec.activeDeadlineSeconds", text))
    return wrong


def within(strategy: Object) -> Object:
    """Return a strategy with Go's internal field names, which error messages show."""
    return {"Type": strategy.get("type", ""), "RollingUpdate": strategy.get("rollingUpdate")}


def status_counts(status: Object, *limited: str, ready_limit: str = "readyReplicas") -> list[FieldError]:
    """Check that a status's numbers are not negative, and those in `limited` not above `replicas`."""
    numbers = [
        name for name, value in status.items() if isinstance(value, int) and not isinstance(value, bool)
    ]
    wrong = non_negative(status, "status", *numbers)
    replicas = status.get("replicas", 0)
    for name in limited:
        if status.get(name, 0) > replicas:
            wrong.append(
                field_invalid(f"status.{name}", status[name], "cannot be greater than status.replicas")
            )
    if status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
        text = f"cannot be greater than {ready_limit}"
        wrong.append(field_invalid("status.availableReplicas", status["availableReplicas"], text))
    return wrong


COLUMNS = "Name | Desired# | Current# | Ready# | Age | Containers* | Images* | Selector*"


class ReplicaSetStrategy(WorkloadStrategy):
    """The rules of replica sets."""

    columns = columns(COLUMNS)
    defaults = {"spec.replicas": 1, "status.replicas": 0}
    immutable: tuple[str, ...] = ("spec.selector",)

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        spec = new["spec"]
        wrong = non_negative(spec, "spec", "replicas", "minReadySeconds")
        return wrong + selected(spec, "deployment") + restarts_always(spec, "ReplicaSet")

    def validate_status_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        limited = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        return status_counts(new.get("status") or {}, *limited)

    def fields(self, obj: Object) -> Mapping[str, str]:
        return {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))}

    def selector_text(self, spec: Object) -> str:
        """Format the selector for the table."""
        return selector_cell(spec.get("selector"))

    def cells(self, obj: Object) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        return [
            spec.get("replicas", 0),
            status.get("replicas", 0),
            status.get("readyReplicas", 0),
            *container_cells(spec.get("template")),
            self.selector_text(spec),
        ]


class ReplicationControllerStrategy(ReplicaSetStrategy):
    """ReplicationControllers, which are stored with defaults from the template, and have no controller."""

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

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        wrong = non_negative(new["spec"], "spec", "replicas", "minReadySeconds")
        return wrong if new["spec"].get("selector") else [*wrong, field_required("spec.selector")]

    def selector_text(self, spec: Object) -> str:
        return labels_cell(spec.get("selector"))


KINDS = choices("apps.v1.DeploymentStrategy.type")


class DeploymentStrategy(WorkloadStrategy):
    """The rules of deployments."""

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

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        spec = new["spec"]
        wrong = non_negative(spec, "spec", "replicas")
        wrong += selected(spec, "deployment")
        wrong += restarts_always(spec, "ReplicaSet")
        wrong += _deployment_strategy(spec["strategy"])
        wrong += non_negative(
            spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"
        )
        deadline = spec["progressDeadlineSeconds"]
        if deadline <= spec.get("minReadySeconds", 0):
            text = "must be greater than minReadySeconds"
            wrong.append(field_invalid("spec.progressDeadlineSeconds", deadline, text))
        return wrong

    def validate_status_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        limited = ("updatedReplicas", "readyReplicas", "availableReplicas")
        return status_counts(new.get("status") or {}, *limited)

    def cells(self, obj: Object) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        return [
            f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
            status.get("updatedReplicas", 0),
            status.get("availableReplicas", 0),
            *container_cells(spec.get("template")),
            selector_cell(spec.get("selector")).replace("<none>", ""),
        ]


def _deployment_strategy(strategy: Object) -> list[FieldError]:
    path = "spec.strategy"
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == "Recreate":
        text = "may not be specified when strategy `type` is 'Recreate'"
        return [field_forbidden(f"{path}.rollingUpdate", text)] if rolling is not None else []
    if strategy["type"] != "RollingUpdate":
        return [field_unsupported(path, within(strategy), KINDS)]
    unavailable, surge = strategy["rollingUpdate"]["maxUnavailable"], strategy["rollingUpdate"]["maxSurge"]
    here = f"{path}.rollingUpdate"
    wrong = int_or_percent(unavailable, f"{here}.maxUnavailable") + int_or_percent(surge, f"{here}.maxSurge")
    if not _number(unavailable) and not _number(surge):
        text = "may not be 0 when `maxSurge` is 0"
        wrong.append(field_invalid(f"{here}.maxUnavailable", unavailable, text))
    return wrong + at_most_100_percent(unavailable, f"{here}.maxUnavailable")


def _number(value: Any) -> int:
    return value if isinstance(value, int) else percent_of(value) or 0


STRATEGIES = ("RollingUpdate", "OnDelete")
GENERATION = "deprecated.daemonset.template.generation"
SHOWN = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")


class DaemonSetStrategy(WorkloadStrategy):
    """The rules of daemon sets."""

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

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        spec = new["spec"]
        selector = spec.get("selector")
        wrong = label_selector(selector, "spec.selector")
        wrong += mismatch(selector, spec["template"])
        if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
            wrong.append(field_invalid("spec.selector", selector, "empty selector is invalid for daemonset"))
        wrong += pod_template(spec["template"], "spec.template")
        wrong += restarts_always(spec, "DaemonSet")
        wrong += non_negative(spec, "spec", "minReadySeconds")
        wrong += _daemon_strategy(spec["updateStrategy"])
        return wrong + non_negative(spec, "spec", "revisionHistoryLimit")

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        kept = immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")
        return kept + self.validate_create(new, context)

    def validate_status_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        status = new.get("status") or {}
        return non_negative(status, "status", *(name for name in status if name != "collisionCount"))

    def cells(self, obj: Object) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        template = spec.get("template") or {}
        return [
            *(status.get(name, 0) for name in SHOWN),
            status.get("numberAvailable", 0),
            labels_cell((template.get("spec") or {}).get("nodeSelector")),
            *container_cells(template),
            selector_cell(spec.get("selector")),
        ]


def _daemon_strategy(strategy: Object) -> list[FieldError]:
    path = "spec.updateStrategy"
    if strategy["type"] == "OnDelete":
        return []
    if strategy["type"] != "RollingUpdate":
        return [field_unsupported(path, within(strategy), STRATEGIES)]
    wrong: list[FieldError] = []
    rolling, here = strategy["rollingUpdate"], f"{path}.rollingUpdate"
    for name in ("maxUnavailable", "maxSurge"):
        wrong += int_or_percent(rolling[name], f"{here}.{name}")
    for name in ("maxUnavailable", "maxSurge"):
        wrong += at_most_100_percent(rolling[name], f"{here}.{name}")
    unavailable, surge = _number(rolling["maxUnavailable"]), _number(rolling["maxSurge"])
    if unavailable and surge:
        text = "may not be set when maxUnavailable is non-zero"
        wrong.append(field_invalid(f"{here}.maxSurge", rolling["maxSurge"], text))
    elif not unavailable and not surge:
        wrong.append(field_required(f"{here}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return wrong


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
RETENTION = ("Retain", "Delete")


class StatefulSetStrategy(WorkloadStrategy):
    """The rules of stateful sets."""

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

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        wrong = self._specification(new["spec"])
        name = new["spec"].get("serviceName")
        if name:
            wrong += texts(dns_label(name), "spec.serviceName", name)
        return wrong

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        wrong = self._specification(new["spec"])
        if _immutable_part(new["spec"]) != _immutable_part(old["spec"]):
            wrong.append(field_forbidden("spec", FORBIDDEN))
        return wrong

    def _specification(self, spec: Object) -> list[FieldError]:
        wrong: list[FieldError] = []
        management = spec["podManagementPolicy"]
        if management not in {"OrderedReady", "Parallel"}:
            text = "must be 'OrderedReady' or 'Parallel'"
            wrong.append(field_invalid("spec.podManagementPolicy", management, text))
        wrong += _update_strategy(spec["updateStrategy"])
        retention = spec["persistentVolumeClaimRetentionPolicy"]
        for name in ("whenDeleted", "whenScaled"):
            if retention[name] not in RETENTION:
                path = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
                wrong.append(field_unsupported(path, retention[name], RETENTION))
        wrong += non_negative(spec, "spec", "replicas", "minReadySeconds")
        wrong += non_negative(spec.get("ordinals") or {}, "spec.ordinals", "start")
        wrong += selected(_with_claims(spec), "statefulset")
        return wrong + restarts_always(spec, "StatefulSet")

    def validate_status_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        limited = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        return status_counts(new.get("status") or {}, *limited, ready_limit="status.readyReplicas")

    def cells(self, obj: Object) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        return [
            f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
            *container_cells(spec.get("template")),
        ]


def _immutable_part(spec: Object) -> Object:
    return {
        key: value for key, value in spec.items() if key not in CHANGEABLE and value not in (None, "", [], {})
    }


def _with_claims(spec: Object) -> Object:
    # A claim's template gives each pod a volume of its name, which its containers may mount.
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


def _update_strategy(strategy: Object) -> list[FieldError]:
    path = "spec.updateStrategy"
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == "OnDelete":
        text = "only allowed for updateStrategy 'RollingUpdate'"
        return [field_invalid(f"{path}.rollingUpdate", rolling, text)] if rolling is not None else []
    if strategy["type"] != "RollingUpdate":
        return [field_invalid(path, within(strategy), "must be 'RollingUpdate' or 'OnDelete'")]
    wrong = non_negative(rolling or {}, f"{path}.rollingUpdate", "partition")
    unavailable = (rolling or {}).get("maxUnavailable")
    if unavailable is not None:
        here = f"{path}.rollingUpdate.maxUnavailable"
        wrong += int_or_percent(unavailable, here) + at_most_100_percent(unavailable, here)
    return wrong


class ControllerRevisionStrategy(StoredStrategy):
    """The rules of revisions: they do not change."""

    columns = columns("Name | Controller | Revision | Age")
    defaults = {"revision": 0}

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        wrong = [
            FieldError(error.reason, error.field.removeprefix("."), error.text)
            for error in non_negative(new, "", "revision")
        ]
        if new.get("data") is None:
            wrong.append(field_required("data", "data is mandatory"))
        elif not isinstance(new["data"], dict):
            wrong.append(field_required("data", "data must be a valid JSON object"))
        return wrong

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        return immutable(new.get("data"), old.get("data"), "data")

    def cells(self, obj: Object) -> list[Any]:
        owners = [each for each in obj["metadata"].get("ownerReferences") or () if each.get("controller")]
        shown = "<none>"
        if owners:
            group = owners[0].get("apiVersion", "").rpartition("/")[0]
            kind = owners[0].get("kind", "").lower()
            shown = f"{kind}.{group}/{owners[0].get('name')}" if group else f"{kind}/{owners[0].get('name')}"
        return [shown, obj.get("revision", 0)]


class PodTemplateStrategy(StoredStrategy):
    """The rules of templates that stand alone."""

    columns = columns("Name | Containers | Images | Pod Labels")
    has_generation = True

    def default(self, obj: Object) -> None:
        default_template(obj)

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        return pod_template(new["template"], "template")

    def cells(self, obj: Object) -> list[Any]:
        template = obj.get("template") or {}
        labels = labels_cell((template.get("metadata") or {}).get("labels"))
        return [*container_cells(template), labels]
