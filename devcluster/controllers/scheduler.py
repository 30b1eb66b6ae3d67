"""The scheduler: each pod to the node with the fewest."""

from __future__ import annotations

from collections import Counter

from devcluster.controllers import conditions
from devcluster.controllers.client import Object
from devcluster.controllers.controller import Controller, Environment, Name, Routes
from devcluster.controllers.nodes import NODES
from devcluster.controllers.placement import refusal, unschedulable_message
from devcluster.storage import Change, Key, Stored

__all__ = ["Scheduler"]

PODS = ("", "pods")
CLAIMS = ("", "persistentvolumeclaims")
MARK = b'"nodeName":'


class Scheduler(Controller):
    """Binds pods, or says why it cannot."""

    name = "default-scheduler"

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._node_of: dict[Key, str] = {}
        self._load: Counter[str] = Counter()
        self._stuck: set[Name] = set()

    def routes(self) -> Routes:
        """Pods, and what may unblock them: nodes and claims."""
        return {PODS: self._on_pod, NODES: self._retry_stuck, CLAIMS: self._retry_stuck}

    async def sync(self, key: Name) -> None:
        """One pod."""
        self._stuck.discard(key)
        pod = self.view.get(PODS, *key)
        if pod is None or not _is_ours(pod):
            return
        problem = self._volume_problem(pod)
        nodes = [stored.decode() for stored in self.view.select(NODES)]
        if problem:
            await self._fail(pod, f"0/{len(nodes)} nodes are available: {problem}. not found")
            return
        reasons = {node["metadata"]["name"]: refusal(pod, node) for node in nodes}
        fit = [name for name, reason in reasons.items() if not reason]
        if not fit:
            await self._fail(pod, unschedulable_message(list(reasons.values()), len(nodes)))
            return
        await self._bind(pod, min(fit, key=lambda name: (self._load[name], name)))

    async def _bind(self, pod: Object, node: str) -> None:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": pod["metadata"]["uid"]},
            "target": {"kind": "Node", "name": node},
        }
        await self.client.create("pods", namespace, binding, name=name, subresource="binding")
        message = f"Successfully assigned {namespace}/{name} to {node}"
        self.events.scheduling(pod, "Normal", "Scheduled", message, action="Binding")

    async def _fail(self, pod: Object, message: str) -> None:
        metadata = pod["metadata"]
        self._stuck.add((metadata["namespace"], metadata["name"]))
        status = pod.get("status") or {}
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "observedGeneration": metadata.get("generation", 1),
            "lastProbeTime": None,
            "lastTransitionTime": self.clock.timestamp(),
            "reason": "Unschedulable",
            "message": message,
        }
        known = status.get("conditions") or []
        former = conditions.find(known, "PodScheduled")
        if former is not None and former.get("message") == message:
            return
        # First without the former: its message has changed, though its reason has not.
        changed = conditions.set_condition(conditions.without(known, "PodScheduled"), condition)
        await self.client.update(
            "pods",
            metadata["namespace"],
            {**pod, "status": {**status, "conditions": changed}},
            subresource="status",
        )
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
        elif change.key not in self._node_of:
            self.enqueue(change)

    def _track(self, key: Key, pod: Stored | None) -> None:
        """Keep count of the pods on each node."""
        known = self._node_of.get(key)
        if pod is None:
            if known is not None:
                del self._node_of[key]
                self._load[known] -= 1
        elif known is None and (node := pod.decode()["spec"].get("nodeName")):
            self._node_of[key] = node
            self._load[node] += 1

    def _retry_stuck(self, change: Change) -> None:  # noqa: ARG002 -- whatever changed
        for key in self._stuck:
            self.queue.add(key)


def _is_ours(pod: Object) -> bool:
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and not pod["metadata"].get("deletionTimestamp")
        and not spec.get("schedulingGates")
        and spec.get("schedulerName", "default-scheduler") == "default-scheduler"
        and pod.get("status", {}).get("phase", "Pending") == "Pending"
    )
