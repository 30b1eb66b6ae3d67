"""Defaults, validation and table columns of Ingresses, NetworkPolicies, Endpoints and EndpointSlices."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

from devcluster.builtin.base import BuiltinStrategy, Object, StoredStrategy, columns, selector_cell
from devcluster.builtin.checks import check_port, check_selector
from devcluster.builtin.services import check_address, check_network, load_balancer_addresses
from devcluster.kinds.field import Field
from devcluster.names import dns_label, dns_subdomain, port_name, port_number, wildcard_subdomain
from devcluster.types.table import choices

MAXIMUM_ENDPOINTS = 1000
MAXIMUM_ADDRESSES = 100
SHOWN = 3


class EndpointsStrategy(StoredStrategy):
    """Strategy of Endpoints: the API server's defaults, validation and table columns."""

    columns = columns("Name | Endpoints | Age")
    create_on_update = True
    nonzero = {"subsets.*.ports.*.protocol": "TCP"}

    def check(self, obj: Field) -> None:
        for subset in obj["subsets"]:
            if not subset["addresses"] and not subset["notReadyAddresses"]:
                subset.required("must specify `addresses` or `notReadyAddresses`")
            for each in (*subset["addresses"], *subset["notReadyAddresses"]):
                address = each.at("ip", "")
                if check_address(address):
                    _check_reachable(address)
                else:
                    address.invalid("must be a valid IP address")
            ports = subset["ports"]
            for port in ports:
                if port["name"] or len(ports.value) > 1:
                    port["name"].check_required(dns_label)
                port.at("port", 0).check(port_number)
                port["protocol"].one_of(choices("core.v1.EndpointPort.protocol"))

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        return [_endpoints_cell(obj.get("subsets") or ())]


class EndpointSliceStrategy(StoredStrategy):
    """Strategy of EndpointSlices: the API server's defaults, validation and table columns."""

    columns = columns("Name | AddressType | Ports | Endpoints | Age")
    has_generation = True
    defaults = {"endpoints": None, "endpoints.*.conditions": {}, "ports.*.name": ""}
    nonzero = {"ports.*.protocol": "TCP"}
    immutable = ("addressType",)

    def check(self, obj: Field) -> None:
        obj["addressType"].one_of(choices("discovery.v1.EndpointSlice.addressType"))
        names: set[str] = set()
        for port in obj["ports"]:
            port["name"].check_given(dns_label)
            port["name"].check_unique(names)
            port["protocol"].one_of(choices("core.v1.EndpointPort.protocol"))
        endpoints = obj["endpoints"]
        if len(endpoints.value or ()) > MAXIMUM_ENDPOINTS:
            endpoints.too_many(len(endpoints.value), MAXIMUM_ENDPOINTS)
        for endpoint in endpoints:
            _check_addresses(endpoint["addresses"], obj.get("addressType", ""))

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        ports = [str(each.get("port") or each.get("name", "*")) for each in obj.get("ports") or ()]
        addresses = [each for one in obj.get("endpoints") or () for each in one.get("addresses") or ()]
        return [
            obj.get("addressType", ""),
            _shortened(ports) or "<unset>",
            _shortened(addresses) or "<unset>",
        ]


def _shortened(items: Sequence[str]) -> str:
    more = f" + {len(items) - SHOWN} more..." if len(items) > SHOWN else ""
    return ",".join(items[:SHOWN]) + more


def _endpoints_cell(subsets: Sequence[Object]) -> str:
    listed: list[str] = []
    for subset in subsets:
        addresses = [each.get("ip", "") for each in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        if not ports:
            listed += addresses
        for port in ports:
            listed += [
                f"[{each}]:{port.get('port', 0)}" if ":" in each else f"{each}:{port.get('port', 0)}"
                for each in addresses
            ]
    return _shortened(listed) if subsets else "<none>"


def _check_reachable(address: Field) -> None:
    parsed = ipaddress.ip_address(address.value)
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed  # as Go's decoder reads it
    if parsed.is_unspecified:
        address.invalid(f"may not be unspecified ({parsed})")
    elif parsed.is_loopback:
        address.invalid("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    elif parsed.is_link_local:
        address.invalid("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    elif parsed.is_multicast:
        address.invalid("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")


def _check_addresses(addresses: Field, kind: str) -> None:
    if not addresses:
        addresses.required("must contain at least 1 address")
    elif len(addresses.value) > MAXIMUM_ADDRESSES:
        addresses.too_many(len(addresses.value), MAXIMUM_ADDRESSES)
    for address in addresses:
        if kind == "FQDN":
            addresses.check(dns_subdomain, address.value)
        elif kind in choices("discovery.v1.EndpointSlice.addressType") and check_address(address):
            if ipaddress.ip_address(address.value).version != int(kind[-1]):
                addresses.invalid(f"must be an {kind} address", address.value)
            _check_reachable(address)


PROTOCOLS = ("TCP", "UDP", "SCTP")
DIRECTIONS = ("Ingress", "Egress")
CLASS_ANNOTATION = "kubernetes.io/ingress.class"


class IngressStrategy(BuiltinStrategy):
    """Strategy of Ingresses: the API server's defaults, validation and table columns."""

    columns = columns("Name | Class | Hosts | Address | Ports | Age")
    has_generation = True
    defaults = {"spec": {}, "status": {}, "status.loadBalancer": {}}

    def check(self, obj: Field) -> None:
        spec = obj["spec"]
        backend = spec["defaultBackend"]
        if not spec["rules"] and not backend.is_set:
            spec.invalid("either `defaultBackend` or `rules` must be specified", None)
        if backend.is_set:
            _check_backend(backend)
        for rule in spec["rules"]:
            _check_rule(rule)
        for tls in spec["tls"]:
            for host in tls["hosts"]:
                _check_host(host)
            tls["secretName"].check_given(dns_subdomain)
        if spec["ingressClassName"].is_set:
            spec["ingressClassName"].check(dns_subdomain)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        marked = CLASS_ANNOTATION in (new["metadata"].get("annotations") or {})
        if old is not None or not marked or new["spec"].get("ingressClassName") is not None:
            return []
        return [
            f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
        ]

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        return [
            spec.get("ingressClassName") or "<none>",
            _hosts_cell([each.get("host", "") for each in spec.get("rules") or ()]),
            ",".join(load_balancer_addresses(status)),
            "80, 443" if spec.get("tls") else "80",
        ]


class IngressClassStrategy(StoredStrategy):
    """Strategy of IngressClasses: the API server's defaults, validation and table columns."""

    columns = columns("Name | Controller | Parameters | Age")
    has_generation = True
    defaults = {"spec": {}}
    nonzero = {"spec.parameters.scope": "Cluster"}

    def check(self, obj: Field) -> None:
        if not obj["spec"]["controller"]:
            obj["spec"]["controller"].required()

    def check_update(self, obj: Field, old: Field) -> None:
        obj["spec"]["controller"].check_unchanged(old["spec"].get("controller"))

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        parameters, shown = spec.get("parameters"), "<none>"
        if parameters:
            group = parameters.get("apiGroup")
            kind = f"{parameters.get('kind', '')}.{group}" if group else parameters.get("kind", "")
            shown = f"{kind}/{parameters.get('name', '')}"
        return [spec.get("controller", ""), shown]


class NetworkPolicyStrategy(StoredStrategy):
    """Strategy of NetworkPolicies: the API server's defaults, validation and table columns."""

    columns = columns("Name | Pod-Selector | Age")
    has_generation = True
    defaults = {"spec": {}, "spec.podSelector": {}}
    nonzero = {"spec.ingress.*.ports.*.protocol": "TCP", "spec.egress.*.ports.*.protocol": "TCP"}

    def default(self, obj: Object) -> None:
        super().default(obj)
        spec = obj["spec"]
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def check(self, obj: Field) -> None:
        spec = obj["spec"]
        check_selector(spec["podSelector"])
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for rule in spec[direction]:
                for port in rule["ports"]:
                    _check_policy_port(port)
                for peer in rule[peers]:
                    _check_peer(peer)
        for each in spec["policyTypes"]:
            each.any_of(DIRECTIONS)

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        return [selector_cell(spec.get("podSelector"))]


def _check_rule(rule: Field) -> None:
    host, http = rule["host"], rule["http"]
    if host and _is_address(host.value):
        host.invalid("must be a DNS name, not an IP address")
    elif host:
        _check_host(host)
    if http.is_set and not http["paths"]:
        http["paths"].required()
    for each in http["paths"]:
        kind, path = each["pathType"], each.at("path", "")
        if not kind.is_set:
            kind.required("pathType must be specified")
            continue
        if kind.value not in choices("networking.v1.HTTPIngressPath.pathType"):
            kind.unsupported(choices("networking.v1.HTTPIngressPath.pathType"))
        elif (kind.value != "ImplementationSpecific" or path) and not path.value.startswith("/"):
            path.invalid("must be an absolute path")
        elif kind.value != "ImplementationSpecific":
            for part in ("//", "/./", "/../", "%2f", "%2F"):
                if part in path.value:
                    path.invalid(f"must not contain '{part}'")
        _check_backend(each["backend"])


def _check_host(host: Field) -> None:
    host.check(wildcard_subdomain if "*" in host.value else dns_subdomain)


def _check_backend(backend: Field) -> None:
    service, resource = backend["service"], backend["resource"]
    if service.is_set and resource.is_set:
        backend.invalid("cannot set both resource and service backends", None)
    elif resource.is_set:
        for name in ("kind", "name"):
            if not resource[name]:
                resource[name].required()
    elif service.is_set:
        service["name"].check_required(dns_label)
        number, named = service["port"]["number"], service["port"]["name"]
        if named and number:
            backend.invalid("cannot set both port name & port number", None)
        elif named or number:
            named.check_given(port_name)
            number.check_given(port_number)
        else:
            backend.required("port name or number is required")
    else:
        backend.required("resource or service backend is required")


def _check_policy_port(each: Field) -> None:
    port, end = each["port"], each["endPort"]
    each["protocol"].one_of(PROTOCOLS)
    if port.is_set:
        check_port(port)
        if end.is_set and isinstance(port.value, int) and end.value < port.value:
            end.invalid("must be greater than or equal to `port`", port.value)
    elif end.is_set:
        end.invalid("may not be specified when `port` is not specified")


def _check_peer(peer: Field) -> None:
    given = peer.given("podSelector", "namespaceSelector", "ipBlock")
    check_selector(peer["podSelector"])
    check_selector(peer["namespaceSelector"])
    if "ipBlock" in given:
        block = peer["ipBlock"]
        if block["cidr"]:
            for network in (block["cidr"], *block["except"]):
                check_network(network)
        else:
            block["cidr"].required()
    if not given:
        peer.required("must specify a peer")
    elif len(given) > 1 and "ipBlock" in given:
        peer.forbidden("may not specify both ipBlock and another peer")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _hosts_cell(hosts: list[str]) -> str:
    named = [each for each in hosts if each][:SHOWN]
    if not named:
        return "*"
    more = f" + {len(hosts) - SHOWN} more..." if len(hosts) > SHOWN and len(named) == SHOWN else ""
    return ",".join(named) + more
