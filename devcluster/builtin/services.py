"""Services."""

# ruff: noqa: ARG002 -- all strategies share these signatures

from __future__ import annotations

import ipaddress
import random
from typing import TYPE_CHECKING, Any

from devcluster.builtin.allocation import NODE_PORTS, SERVICE_NETWORK, Allocation
from devcluster.builtin.base import BuiltinStrategy, Object, columns
from devcluster.builtin.fields import child
from devcluster.builtin.service_checks import service_checks, service_update_checks
from devcluster.builtin.wide import labels_cell
from devcluster.errors import FieldError, field_invalid, internal_error, invalid
from devcluster.names import dns_label

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devcluster.clock import Clock
    from devcluster.kinds.strategy import Context

__all__ = ["ServiceStrategy"]

AFFINITY_SECONDS = 10800
WITH_NODE_PORTS = frozenset({"NodePort", "LoadBalancer"})
NONE = "<none>"


class ServiceStrategy(BuiltinStrategy):
    """The rules of services; addresses and ports are given out when one is stored."""

    columns = columns("Name | Type | Cluster-IP | External-IP | Port(s) | Age | Selector*")
    name_rule = staticmethod(dns_label)
    create_on_update = True

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        """Set up the strategy; `rng` is for addresses and ports."""
        super().__init__(clock)
        self._rng = rng
        self._allocation: Allocation | None = None

    def begin(self, new: Object, context: Context) -> None:
        """Set the plural form of the cluster IP from the singular one."""
        spec = child(new, "spec")
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]

    def prepare_update(self, new: Object, old: Object, context: Context) -> None:
        """Keep assigned addresses and ports, unless the new type has none."""
        super().prepare_update(new, old, context)
        spec, before = new["spec"], old["spec"]
        _carry_over(spec, before)
        several, before_several = spec.get("clusterIPs"), before.get("clusterIPs")
        if spec.get("clusterIP") != before.get("clusterIP") and several == before_several:
            spec["clusterIPs"] = [spec["clusterIP"]] if spec.get("clusterIP") else []
        _drop_unused(spec, before)
        if spec.get("type") != "LoadBalancer":
            new["status"] = {**(new.get("status") or {}), "loadBalancer": {}}

    def default(self, obj: Object) -> None:
        """Default to type ClusterIP without session affinity."""
        spec = child(obj, "spec")
        affinity = spec.setdefault("sessionAffinity", "None") or "None"
        spec["sessionAffinity"] = affinity
        if affinity == "None":
            spec.pop("sessionAffinityConfig", None)
        elif affinity == "ClientIP":
            config = spec.get("sessionAffinityConfig") or {}
            if (config.get("clientIP") or {}).get("timeoutSeconds") is None:
                spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}}
        kind = spec.get("type") or "ClusterIP"
        spec["type"] = kind
        for port in spec.get("ports") or ():
            if not port.get("protocol"):
                port["protocol"] = "TCP"
            if port.get("targetPort") in {None, 0, ""}:
                port["targetPort"] = port.get("port", 0)
        external = kind in WITH_NODE_PORTS or (kind == "ClusterIP" and spec.get("externalIPs"))
        if external and not spec.get("externalTrafficPolicy"):
            spec["externalTrafficPolicy"] = "Cluster"
        if kind in {"ClusterIP", *WITH_NODE_PORTS}:
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if kind == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
        status = child(obj, "status")
        for ingress in child(status, "loadBalancer").get("ingress") or ():
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        """Check ports, addresses and policies."""
        return service_checks(new["spec"])

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        """Check the object, and that its address is unchanged."""
        return service_update_checks(new["spec"], old["spec"]) + service_checks(new["spec"])

    def commit(self, new: Object, old: Object | None, context: Context) -> None:
        """Give it an address and ports, or the ones it asks for; nothing is taken until it is stored."""
        if self._allocation is None or self._allocation.store is not context.store:
            self._allocation = Allocation(context.store, self._rng)
        spec, before = new["spec"], (old or {}).get("spec") or {}
        wrong: list[FieldError] = []
        if spec["type"] == "ExternalName":
            spec.pop("internalTrafficPolicy", None)
        else:
            wrong += self._address(spec, before, self._allocation, dry_run=context.dry_run)
        if spec["type"] in WITH_NODE_PORTS and spec.get("allocateLoadBalancerNodePorts") is not False:
            wrong += self._ports(spec, before, self._allocation, dry_run=context.dry_run)
        if wrong:
            raise invalid("", "Service", new["metadata"].get("name", ""), wrong)

    def _address(
        self, spec: Object, before: Object, allocation: Allocation, *, dry_run: bool
    ) -> list[FieldError]:
        wanted = spec.get("clusterIP")
        if wanted and wanted != "None" and wanted not in (before.get("clusterIPs") or ()):
            why = ""
            if ipaddress.ip_address(wanted) not in SERVICE_NETWORK:
                why = "the provided network does not match the current range"
                if dry_run:
                    why = (
                        f"the provided IP ({wanted}) is not in the valid range. The range of valid IPs is "
                        f"{SERVICE_NETWORK}"
                    )
            elif allocation.has_address(wanted):
                why = "provided IP is already allocated"
            if why:
                text = f"failed to allocate IP {wanted}: {why}"
                return [field_invalid("spec.clusterIPs", spec["clusterIPs"], text)]
        if not wanted:
            free = allocation.free_address()
            if free is None:
                raise internal_error("failed to allocate a serviceIP: range is full")
            spec["clusterIP"], spec["clusterIPs"] = free, [free]
        families, policy = ["IPv4"], "SingleStack"
        if wanted == "None" and not spec.get("selector"):
            families, policy = ["IPv4", "IPv6"], "RequireDualStack"
        if not spec.get("ipFamilies"):
            spec["ipFamilies"] = families
        spec.setdefault("ipFamilyPolicy", policy)
        return []

    def _ports(
        self, spec: Object, before: Object, allocation: Allocation, *, dry_run: bool
    ) -> list[FieldError]:
        wrong: list[FieldError] = []
        own = {(each.get("protocol"), each.get("nodePort")) for each in before.get("ports") or ()}
        taken = {
            (each["protocol"], each["nodePort"]) for each in spec.get("ports") or () if each.get("nodePort")
        }
        for index, port in enumerate(spec.get("ports") or ()):
            number, protocol = port.get("nodePort"), port["protocol"]
            path = f"spec.ports[{index}].nodePort"
            if not number:
                free = allocation.free_port(protocol, taken)
                if free is None:
                    raise internal_error("failed to allocate a nodePort: range is full")
                port["nodePort"] = free
                taken.add((protocol, free))
            elif (protocol, number) not in own:
                if number not in NODE_PORTS:
                    if dry_run:
                        continue  # the server does not check this case
                    text = (
                        "provided port is not in the valid range. The range of valid ports is "
                        f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
                    )
                    wrong.append(field_invalid(path, number, text))
                elif allocation.has_port(protocol, number):
                    wrong.append(field_invalid(path, number, "provided port is already allocated"))
        if spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local":
            spec["healthCheckNodePort"] = spec.get("healthCheckNodePort") or allocation.free_port(
                "TCP", taken
            )
        return wrong

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        """Warn of settings that have no effect, or are deprecated."""
        spec = new["spec"]
        kind, warnings = spec["type"], []
        headless = spec.get("clusterIP") == "None"
        if headless and spec.get("externalIPs"):
            warnings.append("spec.externalIPs is ignored for headless services")
        if headless and spec["sessionAffinity"] != "None":
            warnings.append("spec.SessionAffinity is ignored for headless services")
        if spec.get("externalIPs") and not headless and kind != "ExternalName":
            warnings.append(
                "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
            )
        if spec.get("externalIPs") and kind == "ExternalName":
            warnings.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
        if spec.get("externalName") and kind != "ExternalName":
            warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
        if spec.get("trafficDistribution") == "PreferClose":
            text = '"PreferClose" is deprecated; use "PreferSameZone"'
            warnings.append(f"spec.trafficDistribution: {text}")
        return warnings

    def fields(self, obj: Object) -> Mapping[str, str]:
        """Return the selectable fields: the address and the type."""
        spec = obj.get("spec") or {}
        return {"spec.clusterIP": spec.get("clusterIP", ""), "spec.type": spec.get("type", "")}

    def row(self, obj: Object) -> list[Any]:
        """Return the cells of `kubectl get services -o wide`."""
        spec = obj.get("spec") or {}
        ports = ",".join(map(_port_cell, spec.get("ports") or ()))
        return [
            obj["metadata"].get("name", ""),
            spec.get("type", ""),
            (spec.get("clusterIPs") or [NONE])[0],
            _external_cell(spec, obj.get("status") or {}),
            ports or NONE,
            self.created(obj),
            labels_cell(spec.get("selector")),
        ]


def _carry_over(spec: Object, before: Object) -> None:
    if spec["type"] != "ExternalName" and before.get("type") != "ExternalName":
        if not spec.get("clusterIP") and before.get("clusterIP"):
            spec["clusterIP"] = before["clusterIP"]
        if not spec.get("clusterIPs") and spec.get("clusterIP") == before.get("clusterIP"):
            spec["clusterIPs"] = before.get("clusterIPs")
    if spec["type"] in WITH_NODE_PORTS and before.get("type") in WITH_NODE_PORTS:
        known = {
            (each.get("protocol"), each.get("port")): each.get("nodePort")
            for each in before.get("ports") or ()
        }
        used = {each.get("nodePort") for each in spec.get("ports") or ()}
        for port in spec.get("ports") or ():
            old = known.get((port["protocol"], port.get("port")))
            if not port.get("nodePort") and old and old not in used:
                port["nodePort"] = old
    local = spec.get("externalTrafficPolicy") == before.get("externalTrafficPolicy") == "Local"
    if local and before.get("healthCheckNodePort"):
        spec.setdefault("healthCheckNodePort", before["healthCheckNodePort"])


def _drop_unused(spec: Object, before: Object) -> None:
    def forget(*names: str) -> None:
        for name in names:
            if spec.get(name) == before.get(name):
                spec.pop(name, None)

    if spec["type"] == "ExternalName" and before.get("type") != "ExternalName":
        forget("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")
    if spec["type"] not in WITH_NODE_PORTS and before.get("type") in WITH_NODE_PORTS:
        given = {each.get("nodePort") for each in before.get("ports") or ()}
        if all(each.get("nodePort") in {None, 0, *given} for each in spec.get("ports") or ()):
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
        if not spec.get("externalIPs"):
            forget("externalTrafficPolicy")
    if spec["type"] != "LoadBalancer":
        forget("allocateLoadBalancerNodePorts", "loadBalancerClass")
    if spec["type"] != "LoadBalancer" or spec.get("externalTrafficPolicy") != "Local":
        forget("healthCheckNodePort")


def _port_cell(port: Object) -> str:
    shown = f"{port.get('port', 0)}:{port['nodePort']}" if port.get("nodePort") else f"{port.get('port', 0)}"
    return f"{shown}/{port.get('protocol', '')}"


def _external_cell(spec: Object, status: Object) -> str:
    external = spec.get("externalIPs") or []
    kind = spec.get("type")
    if kind in {"ClusterIP", "NodePort"}:
        return ",".join(external) or NONE
    if kind == "LoadBalancer":
        return ",".join([*load_balancer_addresses(status), *external]) or "<pending>"
    return spec.get("externalName", "") if kind == "ExternalName" else "<unknown>"


def load_balancer_addresses(status: Object) -> list[str]:
    """Return the load balancer's addresses or host names, sorted."""
    ingress = (status.get("loadBalancer") or {}).get("ingress") or ()
    return sorted({each.get("ip") or each.get("hostname") or "" for each in ingress} - {""})
