"""ReplicaSets, and the ReplicationControllers before them."""

# ruff: noqa: ARG002 -- all strategies share these signatures

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.builtin.base import Object, columns
from devcluster.builtin.checks import immutable, non_negative
from devcluster.builtin.templates import WorkloadStrategy, restarts_always, selected, status_counts
from devcluster.builtin.wide import container_cells, labels_cell, selector_cell
from devcluster.errors import FieldError, field_required

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devcluster.kinds.strategy import Context

__all__ = ["ReplicaSetStrategy", "ReplicationControllerStrategy"]

COLUMNS = "Name | Desired# | Current# | Ready# | Age | Containers* | Images* | Selector*"


class ReplicaSetStrategy(WorkloadStrategy):
    """The rules of replica sets."""

    columns = columns(COLUMNS)

    def default(self, obj: Object) -> None:
        """Default to one pod; the status always has a count."""
        super().default(obj)
        if obj["spec"].get("replicas") is None:
            obj["spec"]["replicas"] = 1
        obj["status"].setdefault("replicas", 0)

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        """Check the selector and the template."""
        spec = new["spec"]
        wrong = non_negative(spec, "spec", "replicas", "minReadySeconds")
        return wrong + selected(spec, "deployment") + restarts_always(spec, "ReplicaSet")

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        """Check the object, and that its selector is unchanged."""
        wrong = self.validate_create(new, context)
        return wrong + immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")

    def validate_status_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        """Check that the numbers are consistent."""
        limited = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        return status_counts(new.get("status") or {}, *limited)

    def fields(self, obj: Object) -> Mapping[str, str]:
        """Return the selectable fields: the number of replicas."""
        return {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))}

    def selector_text(self, spec: Object) -> str:
        """Format the selector for the table."""
        return selector_cell(spec.get("selector"))

    def row(self, obj: Object) -> list[Any]:
        """Return the cells of `kubectl get replicasets -o wide`."""
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        return [
            obj["metadata"].get("name", ""),
            spec.get("replicas", 0),
            status.get("replicas", 0),
            status.get("readyReplicas", 0),
            self.created(obj),
            *container_cells(spec.get("template")),
            self.selector_text(spec),
        ]


class ReplicationControllerStrategy(ReplicaSetStrategy):
    """ReplicationControllers, which are stored with defaults from the template, and have no controller."""

    orphans_by_default = True

    def default(self, obj: Object) -> None:
        """Set the defaults of selector and labels, the template's labels."""
        super().default(obj)
        labels = (obj["spec"]["template"].get("metadata") or {}).get("labels")
        if labels:
            if not obj["spec"].get("selector"):
                obj["spec"]["selector"] = dict(labels)
            if not obj["metadata"].get("labels"):
                obj["metadata"]["labels"] = dict(labels)

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        """Check only the numbers, and that there is a selector."""
        wrong = non_negative(new["spec"], "spec", "replicas", "minReadySeconds")
        return wrong if new["spec"].get("selector") else [*wrong, field_required("spec.selector")]

    def selector_text(self, spec: Object) -> str:
        """Format the selector, which is a set of labels for this kind."""
        return labels_cell(spec.get("selector"))

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        """Check the same as at creation: even the selector may change."""
        return self.validate_create(new, context)
