"""StatefulSets."""

# ruff: noqa: ARG002 -- all strategies share these signatures

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.builtin.base import Object, columns
from devcluster.builtin.checks import at_most_100_percent, int_or_percent, non_negative, texts
from devcluster.builtin.fields import child
from devcluster.builtin.templates import WorkloadStrategy, restarts_always, selected, status_counts, within
from devcluster.builtin.wide import container_cells
from devcluster.errors import FieldError, field_forbidden, field_invalid, field_unsupported
from devcluster.names import dns_label

if TYPE_CHECKING:
    from devcluster.kinds.strategy import Context

__all__ = ["StatefulSetStrategy"]

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
    columns = columns("Name | Ready | Age | Containers* | Images*")

    def default(self, obj: Object) -> None:
        """Default to one pod, ordered updates, and claims that outlive their pod."""
        super().default(obj)
        spec = obj["spec"]
        if not spec.get("podManagementPolicy"):
            spec["podManagementPolicy"] = "OrderedReady"
        strategy = child(spec, "updateStrategy")
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
            child(strategy, "rollingUpdate")
        if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
            strategy["rollingUpdate"].setdefault("partition", 0)
        retention = child(spec, "persistentVolumeClaimRetentionPolicy")
        retention.setdefault("whenDeleted", "Retain")
        retention.setdefault("whenScaled", "Retain")
        if spec.get("replicas") is None:
            spec["replicas"] = 1
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("serviceName", "")
        for claim in spec.get("volumeClaimTemplates") or ():
            _default_claim(claim)
        obj["status"].setdefault("replicas", 0)
        obj["status"].setdefault("availableReplicas", 0)

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        """Check the policies, the selector and the template."""
        wrong = self._specification(new["spec"])
        name = new["spec"].get("serviceName")
        if name:
            wrong += texts(dns_label(name), "spec.serviceName", name)
        return wrong

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        """Check the object, and that only some fields have changed."""
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
        """Check that the numbers are consistent."""
        limited = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        return status_counts(new.get("status") or {}, *limited, ready_limit="status.readyReplicas")

    def row(self, obj: Object) -> list[Any]:
        """Return the cells of `kubectl get statefulsets -o wide`."""
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        return [
            obj["metadata"].get("name", ""),
            f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
            self.created(obj),
            *container_cells(spec.get("template")),
        ]


def _default_claim(claim: Object) -> None:
    claim.setdefault("apiVersion", "v1")
    claim.setdefault("kind", "PersistentVolumeClaim")
    child(claim, "metadata")
    spec = child(claim, "spec")
    if not spec.get("volumeMode"):
        spec["volumeMode"] = "Filesystem"
    child(claim, "status").setdefault("phase", "Pending")


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
