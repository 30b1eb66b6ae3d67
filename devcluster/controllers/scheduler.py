"""Scheduler, which selects a node for each pod, and preempts other pods."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from devcluster.builtin.checks import value_of
from devcluster.builtin.pods import pod_resources
from devcluster.controllers.client import CLAIMS, NODES, PODS, Object, is_going, key_of
from devcluster.controllers.controller import Controller, Environment, Name, Routes
from devcluster.kinds import conditions
from devcluster.storage import Change, Key, Stored
from devcluster.storage.selectors import LabelSelector

POD_COUNT = "pods"
"""The resource with one unit per pod."""
UNSCHEDULABLE = "node(s) were unschedulable"
MISMATCH = "node(s) didn't match Pod's node affinity/selector"


def refusal(pod: Object, node: Object) -> str:
    """Return the reason why the pod cannot run on the node, or "" if it can."""
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
    """Return whether a DaemonSet's pod can run on the node; `spec.unschedulable` of the node is ignored."""
    tolerations = pod["spec"].get("tolerations") or ()
    taints = [each for each in _hard_taints(node) if each["key"] != "node.kubernetes.io/unschedulable"]
    return admits(pod, node) and all(any(tolerates(each, taint) for each in tolerations) for taint in taints)


def admits(pod: Object, node: Object) -> bool:
    """Return whether the node matches the pod's node selector and required node affinity."""
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
    """Reasons why a pod does not fit on a node."""

    reasons: tuple[str, ...]
    is_final: bool = True
    """Whether the pod would not fit even without the node's other pods."""


def requests_of(spec: Object) -> dict[str, Fraction]:
    """Return the resources that the scheduler reserves for a pod with this spec."""
    return {POD_COUNT: Fraction(1), **pod_resources(spec, "requests")}


def shortage(wanted: Mapping[str, Fraction], used: Mapping[str, Fraction], node: Object) -> Shortage | None:
    """Return what the node lacks for a pod that requests `wanted`; None if nothing, or if that is unknown."""
    allocatable = (node.get("status") or {}).get("allocatable")
    if not allocatable:
        return None
    reasons, is_final = [], False
    for name, amount in wanted.items():
        there = value_of(allocatable.get(name, "0"))
        if amount and amount > there - used.get(name, 0):
            reasons.append("Too many pods" if name == POD_COUNT else f"Insufficient {name}")
            is_final |= amount > there and name != POD_COUNT
    return Shortage(tuple(reasons), is_final) if reasons else None


def unschedulable_message(shortages: Sequence[Shortage], *, preempts: bool = False) -> str:
    """Return the scheduler's message for a pod that fits nowhere; `shortages` has one entry per node.

    `preempts` means that other pods are deleted to make room for this one.
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


MARK = b'"nodeName":'
ENDED = (b'"phase":"Failed"', b'"phase":"Succeeded"')


class _Placed(NamedTuple):
    """Scheduled pod: its node, requests and priority."""

    node: str
    requests: dict[str, Fraction]
    priority: int


class Scheduler(Controller):
    """Scheduler, which binds pods to nodes, or reports why it cannot."""

    name = "default-scheduler"

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._placed: dict[Key, _Placed] = {}
        self._used: defaultdict[str, defaultdict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
        """The sum of the pods' requests, by node and resource."""
        self._stuck: set[Name] = set()

    def routes(self) -> Routes:
        return {PODS: self._on_pod, NODES: self._retry_stuck, CLAIMS: self._retry_stuck}

    async def sync(self, key: Name) -> None:
        self._stuck.discard(key)
        pod = self.view.get(PODS, *key)
        if pod is None or not _is_ours(pod):
            return
        problem = self._volume_problem(pod)
        nodes = [stored.decode() for stored in self.view.select(NODES)]
        if problem:
            await self._fail(pod, f"0/{len(nodes)} nodes are available: {problem}. not found")
            return
        wanted = requests_of(pod["spec"])
        fit, shortages, full = [], [], []
        for node in nodes:
            name = node["metadata"]["name"]
            reason = refusal(pod, node)
            found = Shortage((reason,)) if reason else shortage(wanted, self._used[name], node)
            if found is None:
                fit.append(name)
            else:
                shortages.append(found)
                full += [] if found.is_final else [node]
        if not fit:
            await self._make_room(pod, wanted, full, shortages)
            return
        await self._bind(pod, min(fit, key=lambda name: (self._used[name]["pods"], name)))

    async def _bind(self, pod: Object, node: str) -> None:
        namespace, name = key_of(pod)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": pod["metadata"]["uid"]},
            "target": {"kind": "Node", "name": node},
        }
        await self.client.create("pods", namespace, binding, name=name, subresource="binding")
        message = f"Successfully assigned {namespace}/{name} to {node}"
        self.events.scheduling(pod, "Normal", "Scheduled", message, action="Binding")

    async def _make_room(
        self, pod: Object, wanted: Mapping[str, Fraction], full: list[Object], shortages: list[Shortage]
    ) -> None:
        """Preempt pods of a lower priority if that helps; report the result unless victims still stop."""
        nominated = (pod.get("status") or {}).get("nominatedNodeName", "")
        if nominated and self._leaves_room(pod, nominated):
            self._stuck.add(key_of(pod))
            return
        never = pod["spec"].get("preemptionPolicy") == "Never"
        choices = [] if never else list(self._preemptions(pod, wanted, full))
        if not choices:
            await self._fail(pod, unschedulable_message(shortages), nominated)
            return
        # Prefer the victims with the lowest priority, then the fewest victims.
        node, victims = min(
            choices,
            key=lambda each: (max(self._placed[key].priority for key in each[1]), len(each[1]), each[0]),
        )
        for key in victims:
            victim = self.view.at(key)
            if victim is None or is_going(victim):
                continue
            message = "default-scheduler: preempting to accommodate a higher priority pod"
            await self.disrupt(victim, "PreemptionByScheduler", message)
            text = f"Preempted by pod {pod['metadata']['uid']} on node {node}"
            self.events.scheduling(victim, "Normal", "Preempted", text, action="Preempting")
        await self._fail(pod, unschedulable_message(shortages, preempts=True), node)

    def _leaves_room(self, pod: Object, node: str) -> bool:
        """Return whether pods of a lower priority are still terminating on the node."""
        return any(
            (metadata := self.view.metadata(key)) is not None and bool(metadata.deletion_timestamp)
            for key, placed in self._placed.items()
            if placed.node == node and placed.priority < pod["spec"].get("priority", 0)
        )

    def _preemptions(
        self, pod: Object, wanted: Mapping[str, Fraction], full: list[Object]
    ) -> Iterator[tuple[str, list[Key]]]:
        """Yield each node where preemption makes the pod fit, with the pods of a lower priority to delete."""
        priority = pod["spec"].get("priority", 0)
        for node in full:
            name = node["metadata"]["name"]
            lower = {
                key: each
                for key, each in self._placed.items()
                if each.node == name and each.priority < priority
            }
            used = dict(self._used[name])
            for each in lower.values():
                for resource, amount in each.requests.items():
                    used[resource] -= amount
            if not lower or shortage(wanted, used, node) is not None:
                continue
            victims: list[Key] = []
            for key, each in sorted(lower.items(), key=lambda item: -item[1].priority):
                kept = {**used}
                for resource, amount in each.requests.items():
                    kept[resource] = kept.get(resource, Fraction(0)) + amount
                if shortage(wanted, kept, node) is None:
                    used = kept
                else:
                    victims.append(key)
            yield name, victims

    async def _fail(self, pod: Object, message: str, nominated: str = "") -> None:
        self._stuck.add(key_of(pod))
        status = pod.get("status") or {}
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "observedGeneration": pod["metadata"].get("generation", 1),
            "lastProbeTime": None,
            "lastTransitionTime": self.clock.timestamp(),
            "reason": "Unschedulable",
            "message": message,
        }
        known = status.get("conditions") or []
        former = conditions.find(known, "PodScheduled")
        if (
            former is not None
            and former.get("message") == message
            and status.get("nominatedNodeName", "") == nominated
        ):
            return
        changed = {**status, "conditions": conditions.replaced(known, condition)}
        if nominated:
            changed["nominatedNodeName"] = nominated
        await self.write_status(PODS, pod, changed)
        self.events.scheduling(pod, "Warning", "FailedScheduling", message, action="Scheduling")

    def _volume_problem(self, pod: Object) -> str:
        namespace = pod["metadata"]["namespace"]
        for volume in pod["spec"].get("volumes") or ():
            if "persistentVolumeClaim" not in volume:
                continue
            name = volume["persistentVolumeClaim"]["claimName"]
            claim = self.view.get(CLAIMS, namespace, name)
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if not claim["spec"].get("volumeName"):
                return "pod has unbound immediate PersistentVolumeClaims"
        return ""

    def _on_pod(self, change: Change) -> None:
        new = change.new
        if new is None or MARK in new.data:
            self._track(change.key, new)
        if new is None:
            self._stuck.discard((change.key.namespace, change.key.name))
        elif change.key not in self._placed:
            self.enqueue(change)

    def _track(self, key: Key, pod: Stored | None) -> None:
        """Update the sum of requests per node after a change of a pod; an ended pod needs no resources."""
        known, new = self._placed.get(key), None
        if pod is not None and not any(mark in pod.data for mark in ENDED):
            spec = pod.decode()["spec"]
            if node := spec.get("nodeName"):
                new = _Placed(node, requests_of(spec), spec.get("priority", 0))
        if new == known:
            return
        if known is not None:
            del self._placed[key]
            self._reserve(known, sign=-1)
            self._retry_stuck()
        if new is not None:
            self._placed[key] = new
            self._reserve(new)

    def _reserve(self, placed: _Placed, *, sign: int = 1) -> None:
        for name, amount in placed.requests.items():
            self._used[placed.node][name] += sign * amount

    def _retry_stuck(self, _: Change | None = None) -> None:
        for key in self._stuck:
            self.queue.add(key)


def _is_ours(pod: Object) -> bool:
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and not is_going(pod)
        and not spec.get("schedulingGates")
        and spec.get("schedulerName", "default-scheduler") == "default-scheduler"
        and pod.get("status", {}).get("phase", "Pending") == "Pending"
    )
