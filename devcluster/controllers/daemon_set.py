"""Controller of DaemonSets, which runs a pod on each eligible node."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Mapping, Sequence

from devcluster.controllers.client import NODES, PODS, Object, age_of, is_going
from devcluster.controllers.controller import Name, Routes
from devcluster.controllers.pod_owners import History, PodController, scaled
from devcluster.controllers.pod_status import has_ended, is_available, is_ready, pod_from
from devcluster.controllers.scheduler import is_eligible
from devcluster.storage import Change

SETS = ("apps", "daemonsets")
HASH_LABEL = "controller-revision-hash"
ALWAYS_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)

Placed = Mapping[str, Sequence[Object]]
"""The pods of each node, by the node where they run or for which they are created."""


class DaemonSetController(PodController):
    """The DaemonSet controller, which creates and replaces pods node by node."""

    name = "daemonset-controller"
    batch_period = 0.002

    def routes(self) -> Routes:
        return {SETS: self.enqueue, PODS: self.enqueue_owner(SETS, "DaemonSet"), NODES: self._on_node}

    async def sync(self, key: Name) -> None:
        daemon_set = self.living(SETS, key)
        if daemon_set is None:
            return
        history = await History.claim(self, daemon_set, hash_label=HASH_LABEL)
        newest = (await history.update())["metadata"]
        digest = newest["labels"][HASH_LABEL]
        placed = _by_node(await self.claim(daemon_set))
        nodes = [stored.decode() for stored in self.view.select(NODES)]
        try:
            if not await self._manage(daemon_set, nodes, placed, digest):
                await self._replace(daemon_set, nodes, placed, digest)
        finally:
            await self._write_status(daemon_set, nodes, placed, digest)
        hashes = {_hash(pod) for pods in placed.values() for pod in pods}
        revisions = [each["metadata"] for each in history.revisions]
        live = {each["name"] for each in revisions if each["labels"][HASH_LABEL] in hashes}
        await history.truncate({newest["name"], *live})
        self.await_availability(key, daemon_set, [pod for pods in placed.values() for pod in pods])

    async def _manage(self, daemon_set: Object, nodes: Sequence[Object], placed: Placed, digest: str) -> bool:
        """Create missing pods, and delete ended or misplaced pods; return whether it did anything."""
        busy, names = False, {node["metadata"]["name"] for node in nodes}
        for node in nodes:
            name = node["metadata"]["name"]
            pods = placed.get(name, ())
            fits = self._fits(daemon_set, node)
            for pod in pods:
                if not is_going(pod) and (not fits or has_ended(pod)):
                    await self.delete_pod(daemon_set, pod)
                    busy = True
            if not pods and fits:
                await self.create_pod(daemon_set, _pod(daemon_set, name, digest))
                busy = True
        for name in placed.keys() - names:
            for pod in placed[name]:
                if not is_going(pod):
                    await self.delete_pod(daemon_set, pod)
                    busy = True
        return busy

    async def _replace(
        self, daemon_set: Object, nodes: Sequence[Object], placed: Placed, digest: str
    ) -> None:
        """Delete pods of old revisions; maxUnavailable limits this only on nodes with an available pod."""
        strategy = daemon_set["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        fitting = [node["metadata"]["name"] for node in nodes if self._fits(daemon_set, node)]
        allowed = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
        budget = max(scaled(allowed, len(fitting), up=True), 1)
        candidates = []
        for name in fitting:
            pods = placed.get(name, ())
            outdated = [pod for pod in pods if _hash(pod) != digest and not is_going(pod)]
            if any(self._is_available(daemon_set, pod) for pod in pods):
                candidates += outdated
            else:
                budget -= 1
                for pod in outdated:
                    await self.delete_pod(daemon_set, pod)
        for pod in candidates[: max(budget, 0)]:
            await self.delete_pod(daemon_set, pod)

    async def _write_status(
        self, daemon_set: Object, nodes: Sequence[Object], placed: Placed, digest: str
    ) -> None:
        fitting = {node["metadata"]["name"] for node in nodes if self._fits(daemon_set, node)}
        first = [min(placed[name], key=age_of) for name in fitting if placed.get(name)]
        available = sum(self._is_available(daemon_set, pod) for pod in first)
        counts = {
            "updatedNumberScheduled": sum(_hash(pod) == digest for pod in first),
            "numberAvailable": available,
            "numberUnavailable": len(fitting) - available,
        }
        status: Object = {
            "currentNumberScheduled": len(first),
            "numberMisscheduled": sum(
                bool(placed.get(node["metadata"]["name"])) and node["metadata"]["name"] not in fitting
                for node in nodes
            ),
            "desiredNumberScheduled": len(fitting),
            "numberReady": sum(map(is_ready, first)),
            "observedGeneration": daemon_set["metadata"].get("generation", 1),
            **{name: count for name, count in counts.items() if count},
        }
        await self.write_status(SETS, daemon_set, status)

    def _fits(self, daemon_set: Object, node: Object) -> bool:
        return is_eligible({"spec": _pod(daemon_set, node["metadata"]["name"], "")["spec"]}, node)

    def _is_available(self, daemon_set: Object, pod: Object) -> bool:
        if is_going(pod):
            return False
        return is_available(pod, daemon_set["spec"].get("minReadySeconds", 0), self.clock.now())

    def _on_node(self, change: Change) -> None:  # noqa: ARG002 -- the handler has the same effect for each change
        self.enqueue_all(SETS)


def _pod(daemon_set: Object, node: str, digest: str) -> Object:
    metadata, template = daemon_set["metadata"], daemon_set["spec"]["template"]
    pod = pod_from(template, daemon_set, prefix=f"{metadata['name']}-")
    pod["metadata"]["labels"] = {
        **pod["metadata"].get("labels", {}),
        HASH_LABEL: digest,
        "pod-template-generation": (metadata.get("annotations") or {}).get(
            "deprecated.daemonset.template.generation", "1"
        ),
    }
    spec = pod["spec"]
    affinity = copy.deepcopy(spec.get("affinity") or {})
    required = affinity.setdefault("nodeAffinity", {}).setdefault(
        "requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": [{}]}
    )
    for term in required["nodeSelectorTerms"]:
        term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    spec["affinity"] = affinity
    spec["tolerations"] = [
        *(spec.get("tolerations") or ()),
        *({"key": key, "operator": "Exists", "effect": effect} for key, effect in ALWAYS_TOLERATED),
    ]
    return pod


def _by_node(pods: Sequence[Object]) -> Placed:
    placed: defaultdict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        placed[_node_of(pod)].append(pod)
    return placed


def _node_of(pod: Object) -> str:
    """Return the name of the node that the pod runs on or that its affinity requires, or ""."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field["key"] == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return ""


def _hash(pod: Object) -> str:
    digest: str = (pod["metadata"].get("labels") or {}).get(HASH_LABEL, "")
    return digest
