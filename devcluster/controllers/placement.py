"""Where a pod may run: selectors, affinity and taints, and the words for when it may run nowhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from devcluster.controllers.client import Object

__all__ = ["admits", "is_eligible", "refusal", "tolerates", "unschedulable_message"]

UNSCHEDULABLE = "node(s) were unschedulable"
MISMATCH = "node(s) didn't match Pod's node affinity/selector"


def refusal(pod: Object, node: Object) -> str:
    """Why the pod cannot go there; empty when it can."""
    tolerations = pod["spec"].get("tolerations") or ()
    if node["spec"].get("unschedulable"):
        cordoned = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        if not any(tolerates(each, cordoned) for each in tolerations):
            return UNSCHEDULABLE
    for taint in _hard_taints(node):
        if not any(tolerates(each, taint) for each in tolerations):
            return "node(s) had untolerated taint(s)"
    return "" if admits(pod, node) else MISMATCH


def is_eligible(pod: Object, node: Object) -> bool:
    """Whether a DaemonSet wants the pod there: its selector and taints, but a cordoned node is fine."""
    tolerations = pod["spec"].get("tolerations") or ()
    taints = [each for each in _hard_taints(node) if each["key"] != "node.kubernetes.io/unschedulable"]
    return admits(pod, node) and all(any(tolerates(each, taint) for each in tolerations) for taint in taints)


def admits(pod: Object, node: Object) -> bool:
    """Whether node selector and required node affinity are met."""
    labels = node["metadata"].get("labels") or {}
    if not (pod["spec"].get("nodeSelector") or {}).items() <= labels.items():
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(
        all(_meets(each, labels) for each in term.get("matchExpressions") or ())
        and all(_meets(each, fields) for each in term.get("matchFields") or ())
        for term in required["nodeSelectorTerms"]
        if term
    )


def tolerates(toleration: Object, taint: Object) -> bool:
    """Whether a toleration covers a taint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("value", "") == taint.get("value", ""))


def unschedulable_message(reasons: Sequence[str], total: int) -> str:
    """What the scheduler says when each node has its reason."""
    if not reasons:
        return "no nodes available to schedule pods"
    counts = sorted(f"{count} {reason}" for reason, count in Counter(reasons).items())
    return (
        f"0/{total} nodes are available: {', '.join(counts)}. no new claims to deallocate, "
        f"preemption: 0/{total} nodes are available: {total} Preemption is not helpful for scheduling."
    )


def _hard_taints(node: Object) -> list[Object]:
    taints = node["spec"].get("taints") or ()
    return [each for each in taints if each.get("effect") in {"NoSchedule", "NoExecute"}]


def _meets(requirement: Object, values: Mapping[str, str]) -> bool:
    key, operator, wanted = requirement["key"], requirement["operator"], requirement.get("values") or ()
    value = values.get(key)
    match operator:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return value is not None and _compare(operator, value, wanted)


def _compare(operator: str, value: str, wanted: Sequence[str]) -> bool:
    try:
        number, limit = int(value), int(wanted[0])
    except (ValueError, IndexError):
        return False
    return number > limit if operator == "Gt" else number < limit
