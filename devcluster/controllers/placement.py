"""Placement of pods: selectors, affinity and taints, and the scheduler's messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from devcluster.builtin.pod_resources import pod_resources
from devcluster.builtin.quantity import value_of
from devcluster.controllers.client import Object
from devcluster.storage.selectors import LabelSelector

__all__ = [
    "Shortage",
    "admits",
    "is_eligible",
    "refusal",
    "requests_of",
    "shortage",
    "tolerates",
    "unschedulable_message",
]

PODS = "pods"
"""The resource with one unit per pod."""
UNSCHEDULABLE = "node(s) were unschedulable"
MISMATCH = "node(s) didn't match Pod's node affinity/selector"


def refusal(pod: Object, node: Object) -> str:
    """Return why the pod cannot run on the node; "" if it can."""
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
    """Return whether a DaemonSet's pod can run on the node: selector and taints count, a cordon does not."""
    tolerations = pod["spec"].get("tolerations") or ()
    taints = [each for each in _hard_taints(node) if each["key"] != "node.kubernetes.io/unschedulable"]
    return admits(pod, node) and all(any(tolerates(each, taint) for each in tolerations) for taint in taints)


def admits(pod: Object, node: Object) -> bool:
    """Return whether the node selector and the required node affinity match."""
    labels = node["metadata"].get("labels") or {}
    if not (pod["spec"].get("nodeSelector") or {}).items() <= labels.items():
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(
        LabelSelector.of_node_term(term.get("matchExpressions")).matches(labels)
        and LabelSelector.of_node_term(term.get("matchFields")).matches(fields)
        for term in required["nodeSelectorTerms"]
        if term
    )


def tolerates(toleration: Object, taint: Object) -> bool:
    """Return whether a toleration covers a taint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("value", "") == taint.get("value", ""))


class Shortage(NamedTuple):
    """Why a pod cannot go to a node."""

    reasons: tuple[str, ...]
    is_final: bool = True
    """Whether the pod would not fit even without the node's other pods."""


def requests_of(spec: Object) -> dict[str, Fraction]:
    """Return what the scheduler reserves for a pod of that specification."""
    return {PODS: Fraction(1), **pod_resources(spec, "requests")}


def shortage(wanted: Mapping[str, Fraction], used: Mapping[str, Fraction], node: Object) -> Shortage | None:
    """Return what the node has too little of for another pod; None if the pod fits."""
    allocatable = (node.get("status") or {}).get("allocatable")
    if not allocatable:
        return None
    reasons, is_final = [], False
    for name, amount in wanted.items():
        there = value_of(allocatable.get(name, "0"))
        if amount and amount > there - used.get(name, 0):
            reasons.append("Too many pods" if name == PODS else f"Insufficient {name}")
            is_final |= amount > there and name != PODS
    return Shortage(tuple(reasons), is_final) if reasons else None


def unschedulable_message(shortages: Sequence[Shortage], *, preempts: bool = False) -> str:
    """Return the scheduler's message; there is one shortage for each node.

    `preempts` says that other pods make room for this one.
    """
    if not shortages:
        return "no nodes available to schedule pods"
    nodes = f"0/{len(shortages)} nodes are available"
    preemption = Counter(
        "Preemption is not helpful for scheduling"
        if each.is_final
        else "No preemption victims found for incoming pod"
        for each in shortages
    )
    reasons = Counter(reason for each in shortages for reason in each.reasons)
    if preempts:
        return f"{nodes}: {_counted(reasons)}."
    return (
        f"{nodes}: {_counted(reasons)}. no new claims to deallocate, "
        f"preemption: {nodes}: {_counted(preemption)}."
    )


def _counted(reasons: Mapping[str, int]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))


def _hard_taints(node: Object) -> list[Object]:
    taints = node["spec"].get("taints") or ()
    return [each for each in taints if each.get("effect") in {"NoSchedule", "NoExecute"}]
