"""Deployments."""

# ruff: noqa: ARG002 -- all strategies share these signatures

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.builtin.base import Object, columns
from devcluster.builtin.checks import (
    at_most_100_percent,
    immutable,
    int_or_percent,
    non_negative,
    percent_of,
)
from devcluster.builtin.fields import child
from devcluster.builtin.templates import WorkloadStrategy, restarts_always, selected, status_counts, within
from devcluster.builtin.wide import container_cells, selector_cell
from devcluster.errors import FieldError, field_forbidden, field_invalid, field_unsupported
from devcluster.types.table import choices

if TYPE_CHECKING:
    from devcluster.kinds.strategy import Context

__all__ = ["DeploymentStrategy"]

KINDS = choices("apps.v1.DeploymentStrategy.type")


class DeploymentStrategy(WorkloadStrategy):
    """The rules of deployments."""

    status_reset = ("spec", ("metadata", "labels"))
    columns = columns("Name | Ready | Up-to-date | Available | Age | Containers* | Images* | Selector*")

    def default(self, obj: Object) -> None:
        """Default to one pod and a rolling update."""
        super().default(obj)
        spec = obj["spec"]
        if spec.get("replicas") is None:
            spec["replicas"] = 1
        strategy = child(spec, "strategy")
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = child(strategy, "rollingUpdate")
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        """Check the selector, the template and the strategy."""
        spec = new["spec"]
        wrong = non_negative(spec, "spec", "replicas")
        wrong += selected(spec, "deployment")
        wrong += restarts_always(spec, "ReplicaSet")
        wrong += _strategy(spec["strategy"])
        wrong += non_negative(
            spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"
        )
        deadline = spec["progressDeadlineSeconds"]
        if deadline <= spec.get("minReadySeconds", 0):
            text = "must be greater than minReadySeconds"
            wrong.append(field_invalid("spec.progressDeadlineSeconds", deadline, text))
        return wrong

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        """Check the object, and that its selector is unchanged."""
        wrong = self.validate_create(new, context)
        return wrong + immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")

    def validate_status_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        """Check that the numbers are consistent."""
        limited = ("updatedReplicas", "readyReplicas", "availableReplicas")
        return status_counts(new.get("status") or {}, *limited)

    def row(self, obj: Object) -> list[Any]:
        """Return the cells of `kubectl get deployments -o wide`."""
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        return [
            obj["metadata"].get("name", ""),
            f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
            status.get("updatedReplicas", 0),
            status.get("availableReplicas", 0),
            self.created(obj),
            *container_cells(spec.get("template")),
            selector_cell(spec.get("selector")).replace("<none>", ""),
        ]


def _strategy(strategy: Object) -> list[FieldError]:
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
