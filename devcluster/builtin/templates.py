"""The common part of workload kinds: a pod template and a selector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devcluster.builtin.base import BuiltinStrategy, Object
from devcluster.builtin.checks import label_selector, non_negative, selector_matches
from devcluster.builtin.fields import child
from devcluster.builtin.pod_checks import pod_template
from devcluster.builtin.pod_defaults import default_pod_spec
from devcluster.builtin.pod_warnings import name_warnings, pod_warnings
from devcluster.errors import FieldError, field_forbidden, field_invalid, field_required, field_unsupported

__all__ = [
    "WorkloadStrategy",
    "default_template",
    "mismatch",
    "restarts_always",
    "selected",
    "status_counts",
    "within",
]


class WorkloadStrategy(BuiltinStrategy):
    """A kind that makes pods of `spec.template`."""

    has_generation = True
    names_pods = True
    """Whether the object's name becomes part of host names that users do not choose."""

    def default(self, obj: Object) -> None:
        """Set the defaults of the template."""
        default_template(child(obj, "spec"))
        child(obj, "status")

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        """Warn of a new object's name, and of a new or changed template."""
        if old is not None and old["metadata"].get("generation") == new["metadata"].get("generation"):
            return []
        warnings = name_warnings(new["metadata"].get("name", "")) if self.names_pods and old is None else []
        return warnings + pod_warnings(new["spec"]["template"]["spec"], "spec.template.spec")


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
