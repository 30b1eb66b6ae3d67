"""Defaults, validation and table columns of Services; allocation of their cluster IPs and node ports."""

from __future__ import annotations

import ipaddress
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from devcluster.builtin.base import NONE, BuiltinStrategy, Object, child, columns, labels_cell
from devcluster.builtin.checks import check_labels, check_port
from devcluster.clock import Clock
from devcluster.errors import internal_error, invalid
from devcluster.kinds.field import Field
from devcluster.kinds.strategy import Context
from devcluster.names import dns_label, dns_subdomain, label_key, port_number
from devcluster.storage.records import Change, Stored
from devcluster.storage.store import Store
from devcluster.types.table import choices

FAMILIES = ("IPv4", "IPv6")
MAXIMUM_AFFINITY = 86400
WITH_NODE_PORTS = frozenset({"NodePort", "LoadBalancer"})


def check_service(spec: Field) -> None:
    """Check the spec of a Service whose defaults are already filled in."""
    kind, ports = spec["type"], spec["ports"]
    headless = (spec.get("clusterIPs") or [""])[0] == "None"
    if not ports and not headless and kind.value != "ExternalName":
        ports.required()
    if kind.value in WITH_NODE_PORTS and headless:
        first = Field("None", "clusterIPs[0]", spec)
        first.invalid(f"may not be set to 'None' for {kind.value} services")
    if kind.value == "ExternalName":
        _check_external_name(spec)
    names: set[str] = set()
    for each in ports:
        _check_port(each, names, named=len(ports.value) > 1)
    check_labels(spec["selector"])
    _check_affinity(spec)
    if kind.value != "ExternalName":
        before = len(spec.errors)
        _check_addresses(spec)
        if len(spec.errors) == before:
            _check_families(spec)
    for address in spec["externalIPs"]:
        check_address(address)
    kind.one_of(choices("core.v1.ServiceSpec.type"))
    _check_same_ports(spec)
    if kind.value != "LoadBalancer":
        text = "may only be used when `type` is 'LoadBalancer'"
        if spec["loadBalancerSourceRanges"]:
            Field(None, "LoadBalancerSourceRanges", spec).forbidden(text)
        if spec["allocateLoadBalancerNodePorts"].is_set:
            spec["allocateLoadBalancerNodePorts"].forbidden(text)
    _check_traffic(spec)


def check_address(address: Field) -> bool:
    """Check an IPv4 or IPv6 address; return whether it is valid."""
    try:
        ipaddress.ip_address(address.value)
    except ValueError:
        address.invalid("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
        return False
    return True


def check_network(field: Field, *, strict: bool = False) -> None:
    """Check an IPv4 or IPv6 network; with `strict`, its address must have no bits beyond the prefix."""
    try:
        network = ipaddress.ip_interface(field.value)
    except ValueError:
        network = None
    if network is None or "/" not in field.value:
        field.invalid("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")
    elif strict and network.ip != network.network.network_address:
        field.invalid("must not have bits set beyond the prefix length")


def _check_external_name(spec: Field) -> None:
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec[name]:
            spec[name].forbidden("may not be set for ExternalName services")
    name = (spec.get("externalName") or "").removesuffix(".")
    Field(name, "externalName", spec).check_required(dns_subdomain)


def _check_port(port: Field, names: set[str], *, named: bool) -> None:
    name = port["name"]
    if name:
        name.check(dns_label)
        name.check_unique(names)
    elif named:
        name.required()
    port.at("port", 0).check(port_number)
    port["protocol"].one_of(choices("core.v1.ServicePort.protocol"))
    check_port(port.at("targetPort", 0))
    if port["appProtocol"].is_set:
        port["appProtocol"].check(label_key)


def _check_affinity(spec: Field) -> None:
    spec["sessionAffinity"].one_of(choices("core.v1.ServiceSpec.sessionAffinity"))
    if spec.get("sessionAffinity") == "ClientIP":
        seconds = spec.at("sessionAffinityConfig.clientIP.timeoutSeconds")
        if not 0 < seconds.value <= MAXIMUM_AFFINITY:
            seconds.invalid(f"must be greater than 0 and less than {MAXIMUM_AFFINITY}")


def _check_addresses(spec: Field) -> None:
    single, several, families = spec.get("clusterIP"), spec["clusterIPs"], spec.get("ipFamilies") or ()
    if single and not several:
        several.required()
    elif single and several.value[0] != single:
        several.invalid("first value must match `clusterIP`")
    elif several and not single:
        several.invalid("must be empty when `clusterIP` is not specified")
    for family in spec["ipFamilies"]:
        family.any_of(FAMILIES)
    if spec["ipFamilyPolicy"]:
        spec["ipFamilyPolicy"].any_of(choices("core.v1.ServiceSpec.ipFamilyPolicy"))
    for index, address in enumerate(several):
        if address.value == "None" and not index:
            if len(several.value) > 1:
                several.invalid("'None' must be the first and only value")
            continue
        check_address(address)
        if index < len(families) and families[index] != ("IPv6" if ":" in address.value else "IPv4"):
            address.invalid(f"expected an {families[index]} value as indicated by `ipFamilies[{index}]`")


def _check_families(spec: Field) -> None:
    """Check the Service's IP families: the cluster supports only IPv4."""
    if spec.get("ipFamilyPolicy") == "RequireDualStack":
        spec["ipFamilyPolicy"].invalid("this cluster is not configured for dual-stack services")
    for family in spec["ipFamilies"]:
        if family.value != "IPv4":
            family.invalid("not configured on this cluster")


def _check_same_ports(spec: Field) -> None:
    ports = spec["ports"]
    given = [each["nodePort"] for each in ports if each["nodePort"]]
    if spec.get("type") == "ClusterIP":
        for each in given:
            each.forbidden("may not be used when `type` is 'ClusterIP'")
    taken: set[tuple[str, int]] = set()
    for each in ports:
        key = (each.get("protocol"), each.get("nodePort"))
        if key in taken:
            each["nodePort"].duplicate()
        if key[1]:
            taken.add(key)
    seen: set[tuple[str, int]] = set()
    for each in ports:
        key = (each.get("protocol"), each.get("port", 0))
        if key in seen:
            # The message shows Go's internal type.
            shown = {"Name": "", "Protocol": key[0], "AppProtocol": None, "Port": key[1]}
            each.duplicate({**shown, "TargetPort": 0, "NodePort": 0})
        seen.add(key)


def _check_traffic(spec: Field) -> None:
    kind, policy = spec.get("type"), spec["externalTrafficPolicy"]
    if kind in WITH_NODE_PORTS or (kind == "ClusterIP" and spec["externalIPs"]):
        policy.one_of(choices("core.v1.ServiceSpec.externalTrafficPolicy"))
    elif policy:
        policy.invalid("may only be set for externally-accessible services")
    if spec["healthCheckNodePort"] and not (kind == "LoadBalancer" and policy.value == "Local"):
        spec["healthCheckNodePort"].invalid(
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        )
    if spec["internalTrafficPolicy"]:
        spec["internalTrafficPolicy"].any_of(choices("core.v1.ServiceSpec.externalTrafficPolicy"))


SERVICE_NETWORK = ipaddress.IPv4Network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)

STATIC_ADDRESSES = 256
STATIC_PORTS = 86
"""The first ports of the range; a Service gets one without a request only when the others are in use."""


class Allocation:
    """Cluster IPs and node ports in use, counted from the stored Services.

    A write that fails allocates nothing, because its Service is not stored.
    """

    def __init__(self, store: Store, rng: random.Random) -> None:
        self.store = store
        self._rng = rng
        self._addresses: Counter[str] = Counter()
        self._ports: Counter[int] = Counter()
        for stored in store.select("", "services"):
            self._count(stored, 1)
        store.subscribe(self._changed)

    def has_address(self, address: str) -> bool:
        """Return whether a Service has this cluster IP."""
        return bool(self._addresses[address])

    def has_port(self, port: int) -> bool:
        """Return whether a Service has this node port, for any protocol."""
        return bool(self._ports[port])

    def free_address(self) -> str:
        """Return a free cluster IP; raise StatusError, 500, when all are in use."""
        for offset in self._offsets(SERVICE_NETWORK.num_addresses - 2, STATIC_ADDRESSES):
            address = str(SERVICE_NETWORK[1 + offset])
            if not self._addresses[address]:
                return address
        raise internal_error("failed to allocate a serviceIP: range is full")

    def free_port(self, taken: set[int]) -> int:
        """Return a free node port that is not in `taken`; raise StatusError, 500, when all are in use."""
        for offset in self._offsets(len(NODE_PORTS), STATIC_PORTS):
            port = NODE_PORTS[offset]
            if not self._ports[port] and port not in taken:
                return port
        raise internal_error("failed to allocate a nodePort: range is full")

    def _offsets(self, size: int, reserved: int) -> Iterator[int]:
        """Yield the offsets of a range, from a random one; the first `reserved` ones follow the others."""
        for first, count in ((reserved, size - reserved), (0, reserved)):
            start = self._rng.randrange(count)
            for number in range(count):
                yield first + (start + number) % count

    def _changed(self, change: Change) -> None:
        if change.key.plural == "services" and not change.key.group:
            if change.old is not None:
                self._count(change.old, -1)
            if change.new is not None:
                self._count(change.new, 1)

    def _count(self, stored: Stored, number: int) -> None:
        spec: dict[str, Any] = stored.decode().get("spec") or {}
        for address in spec.get("clusterIPs") or ():
            self._addresses[address] += number
        for port in spec.get("ports") or ():
            if port.get("nodePort"):
                self._ports[port["nodePort"]] += number
        if spec.get("healthCheckNodePort"):
            self._ports[spec["healthCheckNodePort"]] += number


AFFINITY_SECONDS = 10800


class ServiceStrategy(BuiltinStrategy):
    """Strategy of Services: defaults, validation, and the allocation of cluster IPs and node ports."""

    columns = columns("Name | Type | Cluster-IP | External-IP | Port(s) | Age | Selector*")
    name_rule = staticmethod(dns_label)
    create_on_update = True

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        super().__init__(clock)
        self._rng = rng
        self._allocation: Allocation | None = None

    def begin(self, new: Object, context: Context) -> None:
        spec = child(new, "spec")
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]

    def prepare_update(self, new: Object, old: Object, context: Context) -> None:
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

    def check(self, obj: Field) -> None:
        check_service(obj["spec"])

    def check_update(self, obj: Field, old: Field) -> None:
        spec, before = obj["spec"], old["spec"]
        addresses, had = spec["clusterIPs"], before["clusterIPs"]
        if "ExternalName" not in {spec.get("type"), before.get("type")}:
            if had and not addresses:
                Field(addresses.value, "clusterIPs[0]", spec).invalid("primary clusterIP can not be unset")
            for index, (one, other) in enumerate(zip(addresses, had, strict=False)):
                if one.value != other.value:
                    Field(addresses.value, index, addresses).invalid("may not change once set")
        check_service(spec)

    def commit(self, new: Object, old: Object | None, context: Context) -> None:
        if self._allocation is None or self._allocation.store is not context.store:
            self._allocation = Allocation(context.store, self._rng)
        spec, before = Field(new)["spec"], (old or {}).get("spec") or {}
        kind = spec.get("type")
        if kind == "ExternalName":
            spec.value.pop("internalTrafficPolicy", None)
        else:
            self._give_address(spec, before, self._allocation, dry_run=context.dry_run)
        if kind in WITH_NODE_PORTS and spec.get("allocateLoadBalancerNodePorts") is not False:
            self._give_ports(spec, before, self._allocation, dry_run=context.dry_run)
        if spec.errors:
            raise invalid("", "Service", new["metadata"].get("name", ""), spec.errors)

    def _give_address(self, spec: Field, before: Object, allocation: Allocation, *, dry_run: bool) -> None:
        wanted, value = spec.get("clusterIP"), spec.value
        if wanted and wanted != "None" and wanted not in (before.get("clusterIPs") or ()):
            why = ""
            if ipaddress.ip_address(wanted) not in SERVICE_NETWORK:
                why = "the provided network does not match the current range"
                if dry_run:
                    valid = f"The range of valid IPs is {SERVICE_NETWORK}"
                    why = f"the provided IP ({wanted}) is not in the valid range. {valid}"
            elif allocation.has_address(wanted):
                why = "provided IP is already allocated"
            if why:
                spec["clusterIPs"].invalid(f"failed to allocate IP {wanted}: {why}")
                return
        if not wanted:
            free = allocation.free_address()
            value["clusterIP"], value["clusterIPs"] = free, [free]
        families, policy = ["IPv4"], "SingleStack"
        if wanted == "None" and not spec["selector"]:
            families, policy = ["IPv4", "IPv6"], "RequireDualStack"
        if not value.get("ipFamilies"):
            value["ipFamilies"] = families
        value.setdefault("ipFamilyPolicy", policy)

    def _give_ports(self, spec: Field, before: Object, allocation: Allocation, *, dry_run: bool) -> None:
        own = {each.get("nodePort") for each in before.get("ports") or ()}
        taken = {each["nodePort"].value for each in spec["ports"] if each["nodePort"]}
        for port in spec["ports"]:
            given = port["nodePort"]
            if not given:
                free = allocation.free_port(taken)
                port.value["nodePort"] = free
                taken.add(free)
            elif given.value in own:
                continue
            elif given.value not in NODE_PORTS:
                if not dry_run:  # the server skips this check in a dry run
                    given.invalid(
                        "provided port is not in the valid range. The range of valid ports is "
                        f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
                    )
            elif allocation.has_port(given.value):
                given.invalid("provided port is already allocated")
        local = spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"
        if local and not spec["healthCheckNodePort"]:
            spec.value["healthCheckNodePort"] = allocation.free_port(taken)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
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
        spec = obj.get("spec") or {}
        return {"spec.clusterIP": spec.get("clusterIP", ""), "spec.type": spec.get("type", "")}

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        ports = ",".join(map(_port_cell, spec.get("ports") or ()))
        return [
            spec.get("type", ""),
            (spec.get("clusterIPs") or [NONE])[0],
            _external_cell(spec, status),
            ports or NONE,
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
    """Return the load balancer's IP addresses or host names from a Service's status, sorted."""
    ingress = (status.get("loadBalancer") or {}).get("ingress") or ()
    return sorted({each.get("ip") or each.get("hostname") or "" for each in ingress} - {""})
