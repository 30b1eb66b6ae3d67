"""The nodes of the cluster: there to be looked at and scheduled to, always ready, never heard from again."""

from __future__ import annotations

from devcluster.clock import Clock
from devcluster.controllers.client import Client, Object
from devcluster.controllers.view import View
from devcluster.errors import StatusError

__all__ = ["NODES", "create_nodes", "node_address", "node_object"]

NODES = ("", "nodes")
COUNT = 3
FIRST_NETWORK = 244
"""Pods of the first node are in 10.244.0.0/16, of the second in 10.245.0.0/16."""
CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


async def create_nodes(client: Client, view: View, clock: Clock) -> None:
    """Make `node-0`, `node-1` and `node-2`, unless there are nodes already."""
    if view.select(NODES):
        return
    for number in range(COUNT):
        node = node_object(number, clock.timestamp())
        status = node.pop("status")
        try:
            created = await client.create("nodes", "", node)
            await client.update("nodes", "", {**created, "status": status}, subresource="status")
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise


def node_address(node: Object) -> str:
    """Its internal address."""
    addresses = (node.get("status") or {}).get("addresses") or ()
    return next((each["address"] for each in addresses if each["type"] == "InternalIP"), "127.0.0.1")


def node_object(number: int, now: str) -> Object:
    """The node of that number, counted from 0."""
    name = f"node-{number}"
    resources = {"cpu": "64", "memory": "512Gi", "pods": "10k"}
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
        "spec": {
            "podCIDR": f"10.{FIRST_NETWORK + number}.0.0/16",
            "podCIDRs": [f"10.{FIRST_NETWORK + number}.0.0/16"],
        },
        "status": {
            "capacity": dict(resources),
            "allocatable": dict(resources),
            "conditions": [
                {
                    "type": kind,
                    "status": status,
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": now,
                    "reason": reason,
                    "message": message,
                }
                for kind, status, reason, message in CONDITIONS
            ],
            "addresses": [
                {"type": "InternalIP", "address": f"172.18.0.{number + 2}"},
                {"type": "Hostname", "address": name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
                "kernelVersion": "devcluster",
                "osImage": "devcluster",
                "containerRuntimeVersion": "devcluster://1",
                "kubeletVersion": "v1.36.3",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }
