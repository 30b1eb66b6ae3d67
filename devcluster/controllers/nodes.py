"""Controllers of nodes: the first nodes, conditions, taints, and the eviction of pods by taints."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from devcluster.controllers.client import NODES, PODS, Object, is_going
from devcluster.controllers.container_runtime import is_lost
from devcluster.controllers.controller import Controller, Environment, Name, Routes
from devcluster.controllers.scheduler import tolerates
from devcluster.kinds import conditions
from devcluster.kinds.conditions import condition_of
from devcluster.storage import Change
from devcluster.version import KUBERNETES

COUNT = 3
NOT_READY = "node.kubernetes.io/not-ready"
"""The taint of a node that is not ready yet."""
UNREACHABLE = "node.kubernetes.io/unreachable"
"""The taint of a node whose kubelet is silent."""
SILENT = "NodeStatusUnknown"
FIRST_NETWORK = 244
"""The second byte of the first node's pod network: 10.244.0.0/16, then 10.245.0.0/16."""
CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


class NodeController(Controller):
    """Node controller, which creates the first nodes, and sets the status and taints of all nodes."""

    name = "node-controller"

    def routes(self) -> Routes:
        return {NODES: self.enqueue}

    async def start(self) -> None:
        if self.view.select(NODES):
            return
        for number in range(COUNT):
            await self.create(NODES, node_object(number))

    async def sync(self, key: Name) -> None:
        node = self.living(NODES, key)
        if node is None:
            return
        now, lost = self.clock.timestamp(), is_lost(node)
        ready = condition_of(node, "Ready")
        if ready is None or (ready.get("reason") == SILENT) != lost:
            names = [stored.key.name for stored in self.view.select(NODES)]
            status = _lost(node, now) if lost and ready else _ready(node, names.index(key[1]), now)
            if ready:  # a returning node keeps what a test has patched
                status = {**node["status"], "conditions": status["conditions"]}
            await self.write_status(NODES, node, status)
            return
        taints = node["spec"].get("taints") or []
        present = [each for each in taints if each["key"] == UNREACHABLE]
        kept = [each for each in taints if each["key"] not in {NOT_READY, UNREACHABLE}]
        if lost:
            kept += present or [
                {"key": UNREACHABLE, "effect": effect, "timeAdded": now}
                for effect in ("NoSchedule", "NoExecute")
            ]
        if kept != taints:
            node["spec"]["taints"] = kept
            if not kept:
                del node["spec"]["taints"]
            await self.update(NODES, node)
        elif lost:
            await self._mark_pods(key[1], now)

    async def _mark_pods(self, name: str, now: str) -> None:
        """Set the condition Ready to False in all pods of a node whose kubelet no longer reports."""
        for stored in self.view.select(PODS):
            pod = stored.decode()
            ready = condition_of(pod, "Ready")
            if pod["spec"].get("nodeName") != name or ready is None or ready["status"] != "True":
                continue
            condition = {**ready, "status": "False", "lastTransitionTime": now}
            status = {
                **pod["status"],
                "conditions": conditions.replaced(pod["status"]["conditions"], condition),
            }
            await self.write_status(PODS, pod, status)
            self.warn(pod, "NodeNotReady", "Node is not ready")


def node_address(node: Object) -> str:
    """Return the node's InternalIP, or 127.0.0.1 if it has none."""
    addresses = (node.get("status") or {}).get("addresses") or ()
    return next((each["address"] for each in addresses if each["type"] == "InternalIP"), "127.0.0.1")


def node_object(number: int) -> Object:
    """Build the object of a new node; `number` counts the nodes from 0."""
    name = f"node-{number}"
    network = f"10.{FIRST_NETWORK + number}.0.0/16"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
            },
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
        },
        "spec": {"podCIDR": network, "podCIDRs": [network]},
    }


def _lost(node: Object, now: str) -> Object:
    """Build the status of a node whose kubelet no longer reports."""
    unknown = {
        "status": "Unknown",
        "lastTransitionTime": now,
        "reason": SILENT,
        "message": "Kubelet stopped posting node status.",
    }
    return {**node["status"], "conditions": [{**each, **unknown} for each in node["status"]["conditions"]]}


def _ready(node: Object, number: int, now: str) -> Object:
    """Build the status that the kubelet of a ready node reports."""
    # This capacity is enough for the pods of any test; a test for full nodes can patch it.
    resources = {"cpu": "1k", "ephemeral-storage": "16Ti", "memory": "16Ti", "pods": "100k"}
    conditions = [
        {
            "type": kind,
            "status": value,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }
        for kind, value, reason, message in CONDITIONS
    ]
    status = {
        "capacity": dict(resources),
        "allocatable": dict(resources),
        "addresses": [
            {"type": "InternalIP", "address": f"172.18.0.{number + 2}"},
            {"type": "Hostname", "address": node["metadata"]["name"]},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
            "kernelVersion": "devcluster",
            "osImage": "devcluster",
            "containerRuntimeVersion": "devcluster://1",
            "kubeletVersion": KUBERNETES,
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    }
    # A new node already has empty values for some of these fields, which `status` overrides.
    return {**(node.get("status") or {}), **status, "conditions": conditions}


MARK = b'"NoExecute"'


class TaintEvictionController(Controller):
    """Controller that evicts pods by the taints of their nodes; its keys are pods."""

    name = "taint-eviction-controller"

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._tainted: set[str] = set()
        self._since: dict[Name, float] = {}
        """The event loop's time at which each pod's node was first seen with NoExecute taints."""

    def routes(self) -> Routes:
        return {NODES: self._on_node, PODS: self._on_pod}

    async def sync(self, key: Name) -> None:
        pod = self.view.get(PODS, *key)
        node = None if pod is None else self.view.get(NODES, "", pod["spec"].get("nodeName", ""))
        present = ((node or {}).get("spec") or {}).get("taints") or ()
        taints = [each for each in present if each["effect"] == "NoExecute"]
        if pod is None or not taints or is_going(pod):
            self._since.pop(key, None)
            return
        now = asyncio.get_running_loop().time()
        start = self._since.setdefault(key, now)
        seconds = _tolerated_seconds(pod["spec"].get("tolerations") or (), taints)
        if seconds is None:
            return
        if start + seconds > now:
            self.queue.add_after(key, start + seconds - now)
            return
        message = "Taint manager: deleting due to NoExecute taint"
        await self.disrupt(pod, "DeletionByTaintManager", message)
        named = {"name": key[1], "namespace": key[0], "uid": "", "resourceVersion": ""}
        about = {"kind": "Pod", "apiVersion": "v1", "metadata": named}
        self.normal(about, "TaintManagerEviction", f"Marking for deletion Pod {key[0]}/{key[1]}")

    def _on_node(self, change: Change) -> None:
        name, new = change.key.name, change.new
        if new is not None and MARK in new.data:
            self._tainted.add(name)
        elif name in self._tainted:
            self._tainted.discard(name)
        else:
            return
        mark = f'"nodeName":"{name}"'.encode()
        for stored in self.view.select(PODS):
            if mark in stored.data:
                self.queue.add((stored.key.namespace, stored.key.name))

    def _on_pod(self, change: Change) -> None:
        key = (change.key.namespace, change.key.name)
        if change.new is None:
            self._since.pop(key, None)
        elif any(f'"nodeName":"{name}"'.encode() in change.new.data for name in self._tainted):
            self.queue.add(key)


def _tolerated_seconds(tolerations: Sequence[Object], taints: Sequence[Object]) -> float | None:
    """Return the seconds for which the tolerations let the pod stay; None means without limit."""
    used = []
    for taint in taints:
        matching = [each for each in tolerations if tolerates(each, taint)]
        if not matching:
            return 0.0
        used += matching
    limits = [each["tolerationSeconds"] for each in used if each.get("tolerationSeconds") is not None]
    return max(float(min(limits)), 0.0) if limits else None
