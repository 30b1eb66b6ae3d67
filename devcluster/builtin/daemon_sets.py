"""DaemonSets."""

# ruff: noqa: ARG002 -- all strategies share these signatures

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.builtin.base import Object, columns
from devcluster.builtin.checks import (
    at_most_100_percent,
    immutable,
    int_or_percent,
    label_selector,
    non_negative,
    percent_of,
)
from devcluster.builtin.fields import child
from devcluster.builtin.pod_checks import pod_template
from devcluster.builtin.templates import WorkloadStrategy, mismatch, restarts_always, within
from devcluster.builtin.wide import container_cells, labels_cell, selector_cell
from devcluster.errors import FieldError, field_invalid, field_required, field_unsupported

if TYPE_CHECKING:
    from devcluster.kinds.strategy import Context

__all__ = ["DaemonSetStrategy"]

STRATEGIES = ("RollingUpdate", "OnDelete")
GENERATION = "deprecated.daemonset.template.generation"
COUNTS = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
SHOWN = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")


class DaemonSetStrategy(WorkloadStrategy):
    """The rules of daemon sets."""

    names_pods = False
    columns = columns(
        "Name | Desired# | Current# | Ready# | Up-to-date# | Available# | Node Selector | Age "
        "| Containers* | Images* | Selector*"
    )

    def begin(self, new: Object, context: Context) -> None:
        """Set the template generation to 1, in its deprecated annotation."""
        annotations = child(new["metadata"], "annotations")
        annotations[GENERATION] = "1"

    def prepare_update(self, new: Object, old: Object, context: Context) -> None:
        """Increase the template generation if the template has changed."""
        super().prepare_update(new, old, context)
        before = (old["metadata"].get("annotations") or {}).get(GENERATION, "0")
        changed = new["spec"]["template"] != old["spec"]["template"]
        number = int(before) + changed if before.isdigit() else 1
        new["metadata"]["annotations"] = {
            **(new["metadata"].get("annotations") or {}),
            GENERATION: str(number),
        }

    def default(self, obj: Object) -> None:
        """Default to a rolling update, one node at a time, and to template generation 0."""
        super().default(obj)
        annotations = obj["metadata"].get("annotations") or {}
        obj["metadata"]["annotations"] = {GENERATION: "0", **annotations}
        spec = obj["spec"]
        strategy = child(spec, "updateStrategy")
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = child(strategy, "rollingUpdate")
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)
        for name in COUNTS:
            obj["status"].setdefault(name, 0)

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        """Check the selector, the template and the strategy."""
        spec = new["spec"]
        selector = spec.get("selector")
        wrong = label_selector(selector, "spec.selector")
        wrong += mismatch(selector, spec["template"])
        if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
            wrong.append(field_invalid("spec.selector", selector, "empty selector is invalid for daemonset"))
        wrong += pod_template(spec["template"], "spec.template")
        wrong += restarts_always(spec, "DaemonSet")
        wrong += non_negative(spec, "spec", "minReadySeconds")
        wrong += _update_strategy(spec["updateStrategy"])
        return wrong + non_negative(spec, "spec", "revisionHistoryLimit")

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        """Check the object, and that its selector is unchanged."""
        kept = immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")
        return kept + self.validate_create(new, context)

    def validate_status_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        """Check that the numbers are not negative."""
        status = new.get("status") or {}
        return non_negative(status, "status", *(name for name in status if name != "collisionCount"))

    def row(self, obj: Object) -> list[Any]:
        """Return the cells of `kubectl get daemonsets -o wide`."""
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        template = spec.get("template") or {}
        return [
            obj["metadata"].get("name", ""),
            *(status.get(name, 0) for name in SHOWN),
            status.get("numberAvailable", 0),
            labels_cell((template.get("spec") or {}).get("nodeSelector")),
            self.created(obj),
            *container_cells(template),
            selector_cell(spec.get("selector")),
        ]


def _update_strategy(strategy: Object) -> list[FieldError]:
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


def _number(value: Any) -> int:
    return value if isinstance(value, int) else percent_of(value) or 0
