"""The nodes of the cluster: there to be looked at and scheduled to, ready unless an annotation forbids it."""

from __future__ import annotations

from devcluster.controllers import conditions
from devcluster.controllers.behaviour import is_lost
from devcluster.controllers.client import Object
from devcluster.controllers.controller import Controller, Name, Routes
from devcluster.controllers.pods import condition_of
from devcluster.version import KUBERNETES

__all__ = ["NODES", "NodeController", "node_address", "node_object"]

NODES, PODS = ("", "nodes"), ("", "pods")
COUNT = 3
NOT_READY = "node.kubernetes.io/not-ready"
"""The taint that a node has until it is ready."""
UNREACHABLE = "node.kubernetes.io/unreachable"
"""The taint of a node that is not heard from."""
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
    """The controller that creates the nodes, and makes them and added nodes ready."""

    name = "node-controller"

    def routes(self) -> Routes:
        """Return the handler of changes of nodes."""
        return {NODES: self.enqueue}

    async def start(self) -> None:
        """Make `node-0`, `node-1` and `node-2`, unless there are nodes already."""
        if self.view.select(NODES):
            return
        for number in range(COUNT):
            await self.client.create("nodes", "", node_object(number))

    async def sync(self, key: Name) -> None:
        """Reconcile one node."""
        node = self.view.get(NODES, *key)
        if node is None or node["metadata"].get("deletionTimestamp"):
            return
        now, lost = self.clock.timestamp(), is_lost(node)
        ready = condition_of(node, "Ready")
        if ready is None or (ready.get("reason") == SILENT) != lost:
            status = _lost(node, now) if lost and ready else _ready(node, self._number(key[1]), now)
            await self.client.update("nodes", "", {**node, "status": status}, subresource="status")
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
            await self.client.update("nodes", "", node)
        elif lost:
            await self._mark_pods(key[1], now)

    async def _mark_pods(self, name: str, now: str) -> None:
        """Take the readiness of a lost node's pods."""
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
            namespace = pod["metadata"]["namespace"]
            await self.client.update("pods", namespace, {**pod, "status": status}, subresource="status")
            self.events.warning(pod, "NodeNotReady", "Node is not ready", component=self.name)

    def _number(self, name: str) -> int:
        names = [stored.key.name for stored in self.view.select(NODES)]
        return names.index(name)


def node_address(node: Object) -> str:
    """Return the node's internal address."""
    addresses = (node.get("status") or {}).get("addresses") or ()
    return next((each["address"] for each in addresses if each["type"] == "InternalIP"), "127.0.0.1")


def node_object(number: int) -> Object:
    """Build node `number`, counted from 0, before it is ready."""
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
    """Build the status of a node that is not heard from."""
    unknown = {
        "status": "Unknown",
        "lastTransitionTime": now,
        "reason": SILENT,
        "message": "Kubelet stopped posting node status.",
    }
    return {**node["status"], "conditions": [{**each, **unknown} for each in node["status"]["conditions"]]}


def _ready(node: Object, number: int, now: str) -> Object:
    """Build the status that a node's kubelet reports."""
    # This is enough for the pods of any test; a test can patch a node to fill it.
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
    # A node without a kubelet has these too, but empty.
    return {**(node.get("status") or {}), **status, "conditions": conditions}
