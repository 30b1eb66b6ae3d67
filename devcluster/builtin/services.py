"""Services, and the allocation of addresses and ports to them."""

from __future__ import annotations

import ipaddress
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

from devcluster.builtin import checks
from devcluster.builtin.base import BuiltinStrategy, Object, child, columns, labels_cell
from devcluster.builtin.checks import labels, one_of, texts
from devcluster.clock import Clock
from devcluster.errors import (
    FieldError,
    field_duplicate,
    field_forbidden,
    field_invalid,
    field_required,
    field_unsupported,
    internal_error,
    invalid,
)
from devcluster.kinds.strategy import Context
from devcluster.names import dns_label, dns_subdomain, label_key, port_number
from devcluster.storage.records import Change, Stored
from devcluster.storage.store import Store
from devcluster.types.table import choices

TYPES = choices("core.v1.ServiceSpec.type")
AFFINITIES = choices("core.v1.ServiceSpec.sessionAffinity")
PROTOCOLS = choices("core.v1.ServicePort.protocol")
TRAFFIC_POLICIES = choices("core.v1.ServiceSpec.externalTrafficPolicy")
FAMILIES = ("IPv4", "IPv6")
FAMILY_POLICIES = choices("core.v1.ServiceSpec.ipFamilyPolicy")
MAXIMUM_AFFINITY = 86400


def service_checks(spec: Object) -> list[FieldError]:
    """Check a spec that has its defaults."""
    kind, ports = spec["type"], spec.get("ports") or ()
    headless = (spec.get("clusterIPs") or [""])[0] == "None"
    wrong: list[FieldError] = []
    if not ports and not headless and kind != "ExternalName":
        wrong.append(field_required("spec.ports"))
    if kind in {"LoadBalancer", "NodePort"} and headless:
        text = f"may not be set to 'None' for {kind} services"
        wrong.append(field_invalid("spec.clusterIPs[0]", "None", text))
    if kind == "ExternalName":
        wrong += _external_name(spec)
    names: set[str] = set()
    for index, each in enumerate(ports):
        wrong += _port(each, f"spec.ports[{index}]", names, named=len(ports) > 1)
    wrong += labels(spec.get("selector") or {}, "spec.selector")
    wrong += _affinity(spec)
    if kind != "ExternalName":
        wrong += _addresses(spec)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        wrong += valid_address(address, f"spec.externalIPs[{index}]")
    wrong += one_of(kind, "spec.type", TYPES)
    wrong += _same_ports(spec)
    if spec.get("loadBalancerSourceRanges") and kind != "LoadBalancer":
        text = "may only be used when `type` is 'LoadBalancer'"
        wrong.append(field_forbidden("spec.LoadBalancerSourceRanges", text))
    if spec.get("allocateLoadBalancerNodePorts") is not None and kind != "LoadBalancer":
        text = "may only be used when `type` is 'LoadBalancer'"
        wrong.append(field_forbidden("spec.allocateLoadBalancerNodePorts", text))
    return wrong + _traffic(spec)


def service_update_checks(spec: Object, before: Object) -> list[FieldError]:
    """Check that an assigned address is unchanged."""
    if "ExternalName" in {spec["type"], before.get("type")}:
        return []
    new, old = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    if not new and old:
        text = "primary clusterIP can not be unset"
        return [field_invalid("spec.clusterIPs[0]", spec.get("clusterIPs"), text)]
    return [
        field_invalid(f"spec.clusterIPs[{index}]", new, "may not change once set")
        for index, (one, other) in enumerate(zip(new, old, strict=False))
        if one != other
    ]


def valid_address(address: str, path: str) -> list[FieldError]:
    """Check an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return [field_invalid(path, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
    return []


def _external_name(spec: Object) -> list[FieldError]:
    wrong = [
        field_forbidden(f"spec.{name}", "may not be set for ExternalName services")
        for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        if spec.get(name)
    ]
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        return [*wrong, field_required("spec.externalName")]
    return wrong + texts(dns_subdomain(name), "spec.externalName", name)


def _port(each: Object, path: str, names: set[str], *, named: bool) -> list[FieldError]:
    wrong: list[FieldError] = []
    name = each.get("name")
    if name:
        wrong += texts(dns_label(name), f"{path}.name", name)
        if name in names:
            wrong.append(field_duplicate(f"{path}.name", name))
        names.add(name)
    elif named:
        wrong.append(field_required(f"{path}.name"))
    number = each.get("port", 0)
    wrong += texts(port_number(number), f"{path}.port", number)
    wrong += one_of(each.get("protocol"), f"{path}.protocol", PROTOCOLS)
    wrong += checks.port(each.get("targetPort"), f"{path}.targetPort")
    if each.get("appProtocol") is not None:
        wrong += texts(label_key(each["appProtocol"]), f"{path}.appProtocol", each["appProtocol"])
    return wrong


def _affinity(spec: Object) -> list[FieldError]:
    affinity = spec["sessionAffinity"]
    wrong = one_of(affinity, "spec.sessionAffinity", AFFINITIES)
    if affinity == "ClientIP":
        seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
        if not 0 < seconds <= MAXIMUM_AFFINITY:
            path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            wrong.append(
                field_invalid(path, seconds, f"must be greater than 0 and less than {MAXIMUM_AFFINITY}")
            )
    return wrong


def _addresses(spec: Object) -> list[FieldError]:
    wrong: list[FieldError] = []
    single, several = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    if single and several[:1] != [single]:
        text = "first value must match `clusterIP`"
        wrong.append(
            field_invalid("spec.clusterIPs", several, text) if several else field_required("spec.clusterIPs")
        )
    elif several and not single:
        text = "must be empty when `clusterIP` is not specified"
        wrong.append(field_invalid("spec.clusterIPs", several, text))
    families = spec.get("ipFamilies") or ()
    for index, family in enumerate(families):
        if family not in FAMILIES:
            wrong.append(field_unsupported(f"spec.ipFamilies[{index}]", family, FAMILIES))
    wrong += one_of(spec.get("ipFamilyPolicy"), "spec.ipFamilyPolicy", FAMILY_POLICIES, required=False)
    for index, address in enumerate(several):
        if address == "None" and not index:
            if len(several) > 1:
                text = "'None' must be the first and only value"
                wrong.append(field_invalid("spec.clusterIPs", several, text))
            continue
        here = f"spec.clusterIPs[{index}]"
        wrong += valid_address(address, here)
        if index < len(families) and families[index] != ("IPv6" if ":" in address else "IPv4"):
            text = f"expected an {families[index]} value as indicated by `ipFamilies[{index}]`"
            wrong.append(field_invalid(here, address, text))
    return wrong or _families(spec)


def _families(spec: Object) -> list[FieldError]:
    """Refuse all but IPv4: the cluster has one address family."""
    wrong = []
    if spec.get("ipFamilyPolicy") == "RequireDualStack":
        text = "this cluster is not configured for dual-stack services"
        wrong.append(field_invalid("spec.ipFamilyPolicy", "RequireDualStack", text))
    return wrong + [
        field_invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
        for index, family in enumerate(spec.get("ipFamilies") or ())
        if family != "IPv4"
    ]


def _same_ports(spec: Object) -> list[FieldError]:
    wrong: list[FieldError] = []
    ports = spec.get("ports") or ()
    if spec["type"] == "ClusterIP":
        text = "may not be used when `type` is 'ClusterIP'"
        wrong += [
            field_forbidden(f"spec.ports[{index}].nodePort", text)
            for index, each in enumerate(ports)
            if each.get("nodePort")
        ]
    taken = set()
    for index, each in enumerate(ports):
        if each.get("nodePort"):
            key = (each["protocol"], each["nodePort"])
            if key in taken:
                wrong.append(field_duplicate(f"spec.ports[{index}].nodePort", each["nodePort"]))
            taken.add(key)
    seen = set()
    for index, each in enumerate(ports):
        key = (each["protocol"], each.get("port", 0))
        if key in seen:
            # The message shows Go's internal type.
            shown = {
                "Name": "",
                "Protocol": key[0],
                "AppProtocol": None,
                "Port": key[1],
                "TargetPort": 0,
                "NodePort": 0,
            }
            wrong.append(field_duplicate(f"spec.ports[{index}]", shown))
        seen.add(key)
    return wrong


def _traffic(spec: Object) -> list[FieldError]:
    wrong: list[FieldError] = []
    external = spec["type"] in {"LoadBalancer", "NodePort"} or (
        spec["type"] == "ClusterIP" and spec.get("externalIPs")
    )
    policy = spec.get("externalTrafficPolicy")
    if external:
        wrong += one_of(policy, "spec.externalTrafficPolicy", TRAFFIC_POLICIES)
    elif policy:
        text = "may only be set for externally-accessible services"
        wrong.append(field_invalid("spec.externalTrafficPolicy", policy, text))
    if spec.get("healthCheckNodePort") and not (spec["type"] == "LoadBalancer" and policy == "Local"):
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        wrong.append(field_invalid("spec.healthCheckNodePort", spec["healthCheckNodePort"], text))
    inner = spec.get("internalTrafficPolicy")
    return wrong + one_of(inner, "spec.internalTrafficPolicy", TRAFFIC_POLICIES, required=False)


SERVICE_NETWORK = ipaddress.IPv4Network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)

STATIC_ADDRESSES = 256
STATIC_PORTS = 86
"""The first ports of the range, which are reserved for requests of a specific port."""


class Allocation:
    """Kept in step with the store, by watching its writes: nothing that fails to be stored is ever taken."""

    def __init__(self, store: Store, rng: random.Random) -> None:
        self.store = store
        self._rng = rng
        self._addresses: Counter[str] = Counter()
        self._ports: Counter[tuple[str, int]] = Counter()
        for stored in store.select("", "services"):
            self._count(stored, 1)
        store.subscribe(self._changed)

    def has_address(self, address: str) -> bool:
        """Return whether a service has the address."""
        return bool(self._addresses[address])

    def has_port(self, protocol: str, port: int) -> bool:
        """Return whether a service has that node port; each protocol has its own ports."""
        return bool(self._ports[protocol, port])

    def free_address(self) -> str | None:
        """Return a free address, or None when all are taken."""
        size = SERVICE_NETWORK.num_addresses - 2 - STATIC_ADDRESSES
        start = self._rng.randrange(size)
        for offset in range(size):
            address = str(SERVICE_NETWORK[1 + STATIC_ADDRESSES + (start + offset) % size])
            if not self._addresses[address]:
                return address
        return None

    def free_port(self, protocol: str, taken: set[tuple[str, int]]) -> int | None:
        """Return a free port that is not in `taken`, or None when all are taken."""
        size = len(NODE_PORTS) - STATIC_PORTS
        start = self._rng.randrange(size)
        for offset in range(size):
            port = NODE_PORTS[STATIC_PORTS + (start + offset) % size]
            if not self._ports[protocol, port] and (protocol, port) not in taken:
                return port
        return None

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
                self._ports[port.get("protocol", "TCP"), port["nodePort"]] += number
        if spec.get("healthCheckNodePort"):
            self._ports["TCP", spec["healthCheckNodePort"]] += number


AFFINITY_SECONDS = 10800
WITH_NODE_PORTS = frozenset({"NodePort", "LoadBalancer"})
NONE = "<none>"


class ServiceStrategy(BuiltinStrategy):
    """The rules of services; addresses and ports are given out when one is stored."""

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

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        return service_checks(new["spec"])

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        return service_update_checks(new["spec"], old["spec"]) + service_checks(new["spec"])

    def commit(self, new: Object, old: Object | None, context: Context) -> None:
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

    def cells(self, obj: Object) -> list[Any]:
        spec = obj.get("spec") or {}
        ports = ",".join(map(_port_cell, spec.get("ports") or ()))
        return [
            spec.get("type", ""),
            (spec.get("clusterIPs") or [NONE])[0],
            _external_cell(spec, obj.get("status") or {}),
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
    """Return the load balancer's addresses or host names, sorted."""
    ingress = (status.get("loadBalancer") or {}).get("ingress") or ()
    return sorted({each.get("ip") or each.get("hostname") or "" for each in ingress} - {""})
