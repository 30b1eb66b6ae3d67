"""Nodes."""

# ruff: noqa: ARG002 -- all strategies share these signatures

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.builtin.base import BuiltinStrategy, Object, columns
from devcluster.builtin.fields import child

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devcluster.kinds.strategy import Context

__all__ = ["NodeStrategy"]

ROLE = "node-role.kubernetes.io/"
INFORMATION = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class NodeStrategy(BuiltinStrategy):
    """The rules of nodes; a node that registers itself says how it is at once."""

    columns = columns(
        "Name | Status | Roles | Age | Version | Internal-IP* | External-IP* | OS-Image* | Kernel-Version* "
        "| Container-Runtime*"
    )

    def prepare_create(self, new: Object, context: Context) -> None:
        """Keep the status, unlike for other kinds, and taint the node until it is ready."""
        taints = child(new, "spec").setdefault("taints", [])
        if not any(each.get("key") == NOT_READY["key"] for each in taints):
            taints.append(dict(NOT_READY))

    def default(self, obj: Object) -> None:
        """Set the fields that a node always has."""
        spec = child(obj, "spec")
        if spec.get("podCIDR") and not spec.get("podCIDRs"):
            spec["podCIDRs"] = [spec["podCIDR"]]
        status = child(obj, "status")
        child(child(status, "daemonEndpoints"), "kubeletEndpoint").setdefault("Port", 0)
        information = child(status, "nodeInfo")
        for name in INFORMATION:
            information.setdefault(name, "")
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])

    def fields(self, obj: Object) -> Mapping[str, str]:
        """Return the selectable fields: whether the node is unschedulable."""
        return {"spec.unschedulable": "true" if (obj.get("spec") or {}).get("unschedulable") else "false"}

    def row(self, obj: Object) -> list[Any]:
        """Return the cells of `kubectl get nodes -o wide`."""
        status = obj.get("status") or {}
        information = status.get("nodeInfo") or {}
        addresses = {
            each.get("type"): each.get("address", "") for each in reversed(status.get("addresses") or [])
        }
        kernel = information.get("kernelVersion") or "<unknown>"
        if information.get("architecture"):
            kernel += f" ({information['architecture']})"
        return [
            obj["metadata"].get("name", ""),
            _state(obj),
            ",".join(_roles(obj["metadata"].get("labels") or {})) or "<none>",
            self.created(obj),
            information.get("kubeletVersion", ""),
            addresses.get("InternalIP") or "<none>",
            addresses.get("ExternalIP") or "<none>",
            information.get("osImage") or "<unknown>",
            kernel,
            information.get("containerRuntimeVersion") or "<unknown>",
        ]


def _state(node: Object) -> str:
    parts = [
        "Ready" if each.get("status") == "True" else "NotReady"
        for each in (node.get("status") or {}).get("conditions") or ()
        if each.get("type") == "Ready"
    ] or ["Unknown"]
    if (node.get("spec") or {}).get("unschedulable"):
        parts.append("SchedulingDisabled")
    return ",".join(parts)


def _roles(labels: Mapping[str, str]) -> list[str]:
    named = {key.removeprefix(ROLE) for key in labels if key.startswith(ROLE)} - {""}
    return sorted(named | {value for key, value in labels.items() if key == "kubernetes.io/role" and value})
