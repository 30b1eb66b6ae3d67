"""The scheduler: each pod to the node with the fewest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction

from devcluster.controllers import conditions
from devcluster.controllers.client import Object
from devcluster.controllers.controller import Controller, Environment, Name, Routes
from devcluster.controllers.nodes import NODES
from devcluster.controllers.placement import (
    Shortage,
    refusal,
    requests_of,
    shortage,
    unschedulable_message,
)
from devcluster.storage import Change, Key, Stored

__all__ = ["Scheduler"]

PODS = ("", "pods")
CLAIMS = ("", "persistentvolumeclaims")
MARK = b'"nodeName":'
ENDED = (b'"phase":"Failed"', b'"phase":"Succeeded"')


class Scheduler(Controller):
    """The scheduler, which binds pods, or reports why it cannot."""

    name = "default-scheduler"

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._placed: dict[Key, tuple[str, dict[str, Fraction]]] = {}
        self._used: defaultdict[str, defaultdict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
        """The sum of the pods' requests, by node and resource."""
        self._stuck: set[Name] = set()

    def routes(self) -> Routes:
        """Return the handlers of changes of pods, and of nodes and claims, which pods may wait for."""
        return {PODS: self._on_pod, NODES: self._retry_stuck, CLAIMS: self._retry_stuck}

    async def sync(self, key: Name) -> None:
        """Schedule one pod."""
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
        fit, shortages = [], []
        for node in nodes:
            name = node["metadata"]["name"]
            reason = refusal(pod, node)
            found = Shortage((reason,)) if reason else shortage(wanted, self._used[name], node)
            if found is None:
                fit.append(name)
            else:
                shortages.append(found)
        if not fit:
            await self._fail(pod, unschedulable_message(shortages))
            return
        await self._bind(pod, min(fit, key=lambda name: (self._used[name]["pods"], name)))

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
        # The former condition is removed first, so that a new message replaces it even with the same reason.
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
        elif change.key not in self._placed:
            self.enqueue(change)

    def _track(self, key: Key, pod: Stored | None) -> None:
        """Keep count of what the pods on each node request; one that has ended needs nothing."""
        known = self._placed.get(key)
        if pod is None or any(mark in pod.data for mark in ENDED):
            if known is not None:
                del self._placed[key]
                self._reserve(*known, sign=-1)
                self._retry_stuck()
        elif known is None and (node := (spec := pod.decode()["spec"]).get("nodeName")):
            self._placed[key] = node, requests_of(spec)
            self._reserve(*self._placed[key])

    def _reserve(self, node: str, requests: Mapping[str, Fraction], *, sign: int = 1) -> None:
        for name, amount in requests.items():
            self._used[node][name] += sign * amount

    def _retry_stuck(self, _: Change | None = None) -> None:
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
