"""Ingresses, NetworkPolicies, and the endpoints of services."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

from devcluster.builtin import checks
from devcluster.builtin.base import BuiltinStrategy, Object, StoredStrategy, columns, selector_cell
from devcluster.builtin.checks import label_selector, one_of, texts
from devcluster.builtin.services import load_balancer_addresses, valid_address
from devcluster.errors import (
    FieldError,
    field_duplicate,
    field_forbidden,
    field_invalid,
    field_required,
    field_too_many,
    field_unsupported,
)
from devcluster.kinds.strategy import Context
from devcluster.names import dns_label, dns_subdomain, port_name, port_number, wildcard_subdomain
from devcluster.types.table import choices

ENDPOINT_PROTOCOLS = choices("core.v1.EndpointPort.protocol")
ADDRESS_TYPES = choices("discovery.v1.EndpointSlice.addressType")
MAXIMUM_ENDPOINTS = 1000
MAXIMUM_ADDRESSES = 100
SHOWN = 3


class EndpointsStrategy(StoredStrategy):
    """The rules of endpoints."""

    columns = columns("Name | Endpoints | Age")
    create_on_update = True
    nonzero = {"subsets.*.ports.*.protocol": "TCP"}

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        wrong: list[FieldError] = []
        for index, subset in enumerate(new.get("subsets") or ()):
            here = f"subsets[{index}]"
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                text = "must specify `addresses` or `notReadyAddresses`"
                wrong.append(field_required(here, text))
            for field in ("addresses", "notReadyAddresses"):
                for number, each in enumerate(subset.get(field) or ()):
                    wrong += _address(each.get("ip", ""), f"{here}.{field}[{number}].ip")
            ports = subset.get("ports") or ()
            for number, port in enumerate(ports):
                wrong += _port(port, f"{here}.ports[{number}]", named=len(ports) > 1)
        return wrong

    def cells(self, obj: Object) -> list[Any]:
        return [_endpoints_cell(obj.get("subsets") or ())]


class EndpointSliceStrategy(StoredStrategy):
    """The rules of endpoint slices."""

    columns = columns("Name | AddressType | Ports | Endpoints | Age")
    has_generation = True
    defaults = {"endpoints": None, "endpoints.*.conditions": {}, "ports.*.name": ""}
    nonzero = {"ports.*.protocol": "TCP"}
    immutable = ("addressType",)

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        kind = new.get("addressType", "")
        wrong = one_of(kind, "addressType", ADDRESS_TYPES)
        names: set[str] = set()
        for index, port in enumerate(new.get("ports") or ()):
            path, name = f"ports[{index}]", port["name"]
            if name:
                wrong += texts(dns_label(name), f"{path}.name", name)
            if name in names:
                wrong.append(field_duplicate(f"{path}.name", name))
            names.add(name)
            wrong += one_of(port["protocol"], f"{path}.protocol", ENDPOINT_PROTOCOLS)
        endpoints = new.get("endpoints") or ()
        if len(endpoints) > MAXIMUM_ENDPOINTS:
            wrong.append(field_too_many("endpoints", len(endpoints), MAXIMUM_ENDPOINTS))
        for index, endpoint in enumerate(endpoints):
            wrong += _addresses(endpoint.get("addresses") or (), kind, f"endpoints[{index}].addresses")
        return wrong

    def cells(self, obj: Object) -> list[Any]:
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


def _address(address: str, path: str) -> list[FieldError]:
    wrong = valid_address(address, path)
    if wrong:
        return [*wrong, field_invalid(path, address, "must be a valid IP address")]
    return _reachable(address, path)


def _reachable(address: str, path: str) -> list[FieldError]:
    parsed = ipaddress.ip_address(address)
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed  # as Go reads it
    text = ""
    if parsed.is_unspecified:
        text = f"may not be unspecified ({parsed})"
    elif parsed.is_loopback:
        text = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
    elif parsed.is_link_local:
        text = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
    elif parsed.is_multicast:
        text = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
    return [field_invalid(path, address, text)] if text else []


def _port(port: Object, path: str, *, named: bool) -> list[FieldError]:
    wrong: list[FieldError] = []
    name = port.get("name", "")
    if name:
        wrong += texts(dns_label(name), f"{path}.name", name)
    elif named:
        wrong.append(field_required(f"{path}.name"))
    number = port.get("port", 0)
    wrong += texts(port_number(number), f"{path}.port", number)
    return wrong + one_of(port["protocol"], f"{path}.protocol", ENDPOINT_PROTOCOLS)


def _addresses(addresses: Sequence[str], kind: str, path: str) -> list[FieldError]:
    if not addresses:
        return [field_required(path, "must contain at least 1 address")]
    wrong: list[FieldError] = []
    if len(addresses) > MAXIMUM_ADDRESSES:
        wrong.append(field_too_many(path, len(addresses), MAXIMUM_ADDRESSES))
    for index, address in enumerate(addresses):
        if kind == "FQDN":
            wrong += texts(dns_subdomain(address), path, address)
            continue
        if kind not in ADDRESS_TYPES:
            continue
        bad = valid_address(address, f"{path}[{index}]")
        wrong += bad
        if bad:
            continue
        if ipaddress.ip_address(address).version != int(kind[-1]):
            wrong.append(field_invalid(path, address, f"must be an {kind} address"))
        wrong += _reachable(address, f"{path}[{index}]")
    return wrong


PATH_TYPES = choices("networking.v1.HTTPIngressPath.pathType")
PROTOCOLS = ("TCP", "UDP", "SCTP")
DIRECTIONS = ("Ingress", "Egress")
CLASS_ANNOTATION = "kubernetes.io/ingress.class"
CIDR_TEXT = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


class IngressStrategy(BuiltinStrategy):
    """The rules of ingresses."""

    columns = columns("Name | Class | Hosts | Address | Ports | Age")
    has_generation = True
    defaults = {"spec": {}, "status": {}, "status.loadBalancer": {}}

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        spec = new["spec"]
        wrong: list[FieldError] = []
        if not spec.get("rules") and spec.get("defaultBackend") is None:
            text = "either `defaultBackend` or `rules` must be specified"
            wrong.append(field_invalid("spec", None, text))
        if spec.get("defaultBackend") is not None:
            wrong += _backend(spec["defaultBackend"], "spec.defaultBackend")
        for index, rule in enumerate(spec.get("rules") or ()):
            wrong += _rule(rule, f"spec.rules[{index}]")
        name = spec.get("ingressClassName")
        if name is not None:
            wrong += texts(dns_subdomain(name), "spec.ingressClassName", name)
        return wrong

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        marked = CLASS_ANNOTATION in (new["metadata"].get("annotations") or {})
        if old is not None or not marked or new["spec"].get("ingressClassName") is not None:
            return []
        return [
            f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
        ]

    def cells(self, obj: Object) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        return [
            spec.get("ingressClassName") or "<none>",
            _hosts_cell([each.get("host", "") for each in spec.get("rules") or ()]),
            ",".join(load_balancer_addresses(status)),
            "80, 443" if spec.get("tls") else "80",
        ]


class IngressClassStrategy(StoredStrategy):
    """The rules of ingress classes."""

    columns = columns("Name | Controller | Parameters | Age")
    has_generation = True
    defaults = {"spec": {}}
    nonzero = {"spec.parameters.scope": "Cluster"}

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        spec = new.get("spec") or {}
        return [] if spec.get("controller") else [field_required("spec.controller")]

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        one, other = ((each.get("spec") or {}).get("controller") for each in (new, old))
        return [] if one == other else [field_invalid("spec.controller", one, "field is immutable")]

    def cells(self, obj: Object) -> list[Any]:
        spec = obj.get("spec") or {}
        parameters, shown = spec.get("parameters"), "<none>"
        if parameters:
            group = parameters.get("apiGroup")
            kind = f"{parameters.get('kind', '')}.{group}" if group else parameters.get("kind", "")
            shown = f"{kind}/{parameters.get('name', '')}"
        return [spec.get("controller", ""), shown]


class NetworkPolicyStrategy(StoredStrategy):
    """The rules of network policies."""

    columns = columns("Name | Pod-Selector | Age")
    has_generation = True
    defaults = {"spec": {}, "spec.podSelector": {}}
    nonzero = {"spec.ingress.*.ports.*.protocol": "TCP", "spec.egress.*.ports.*.protocol": "TCP"}

    def default(self, obj: Object) -> None:
        super().default(obj)
        spec = obj["spec"]
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        spec = new["spec"]
        wrong = label_selector(spec["podSelector"], "spec.podSelector")
        for field, peers in (("ingress", "from"), ("egress", "to")):
            for index, rule in enumerate(spec.get(field) or ()):
                here = f"spec.{field}[{index}]"
                for number, each in enumerate(rule.get("ports") or ()):
                    wrong += _policy_port(each, f"{here}.ports[{number}]")
                for number, each in enumerate(rule.get(peers) or ()):
                    wrong += _peer(each, f"{here}.{peers}[{number}]")
        for index, each in enumerate(spec["policyTypes"]):
            if each not in DIRECTIONS:
                wrong.append(field_unsupported(f"spec.policyTypes[{index}]", each, DIRECTIONS))
        return wrong

    def cells(self, obj: Object) -> list[Any]:
        selector = selector_cell((obj.get("spec") or {}).get("podSelector"))
        return [selector]


def _rule(rule: Object, path: str) -> list[FieldError]:
    wrong: list[FieldError] = []
    host = rule.get("host", "")
    if host:
        if _is_address(host):
            wrong.append(field_invalid(f"{path}.host", host, "must be a DNS name, not an IP address"))
        else:
            named = wildcard_subdomain if "*" in host else dns_subdomain
            wrong += texts(named(host), f"{path}.host", host)
    http = rule.get("http")
    if http is None:
        return wrong
    if not http.get("paths"):
        return [*wrong, field_required(f"{path}.http.paths")]
    for index, each in enumerate(http["paths"]):
        wrong += _path(each, f"{path}.http.paths[{index}]")
    return wrong


def _path(each: Object, path: str) -> list[FieldError]:
    kind, value = each.get("pathType"), each.get("path", "")
    if kind is None:
        return [field_required(f"{path}.pathType", "pathType must be specified")]
    wrong: list[FieldError] = []
    if kind not in PATH_TYPES:
        wrong.append(field_unsupported(f"{path}.pathType", kind, PATH_TYPES))
    elif (kind != "ImplementationSpecific" or value) and not value.startswith("/"):
        wrong.append(field_invalid(f"{path}.path", value, "must be an absolute path"))
    elif kind != "ImplementationSpecific":
        wrong += [
            field_invalid(f"{path}.path", value, f"must not contain '{part}'")
            for part in ("//", "/./", "/../", "%2f", "%2F")
            if part in value
        ]
    return wrong + _backend(each.get("backend") or {}, f"{path}.backend")


def _backend(backend: Object, path: str) -> list[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [field_invalid(path, None, "cannot set both resource and service backends")]
    if resource is not None:
        return [
            field_required(f"{path}.resource.{name}") for name in ("kind", "name") if not resource.get(name)
        ]
    if service is None:
        return [field_required(path, "resource or service backend is required")]
    wrong: list[FieldError] = []
    name, target = service.get("name", ""), service.get("port") or {}
    if not name:
        wrong.append(field_required(f"{path}.service.name"))
    else:
        wrong += texts(dns_label(name), f"{path}.service.name", name)
    number, named = target.get("number", 0), target.get("name", "")
    if named and number:
        wrong.append(field_invalid(path, None, "cannot set both port name & port number"))
    elif named:
        wrong += texts(port_name(named), f"{path}.service.port.name", named)
    elif number:
        wrong += texts(port_number(number), f"{path}.service.port.number", number)
    else:
        wrong.append(field_required(path, "port name or number is required"))
    return wrong


def _policy_port(each: Object, path: str) -> list[FieldError]:
    wrong = one_of(each["protocol"], f"{path}.protocol", PROTOCOLS)
    if each.get("port") is not None:
        wrong += checks.port(each["port"], f"{path}.port")
        end = each.get("endPort")
        if end is not None and isinstance(each["port"], int) and end < each["port"]:
            wrong.append(
                field_invalid(f"{path}.endPort", each["port"], "must be greater than or equal to `port`")
            )
    elif each.get("endPort") is not None:
        text = "may not be specified when `port` is not specified"
        wrong.append(field_invalid(f"{path}.endPort", each["endPort"], text))
    return wrong


def _peer(peer: Object, path: str) -> list[FieldError]:
    wrong: list[FieldError] = []
    given = 0
    for name in ("podSelector", "namespaceSelector"):
        if peer.get(name) is not None:
            given += 1
            wrong += label_selector(peer[name], f"{path}.{name}")
    block = peer.get("ipBlock")
    if block is not None:
        given += 1
        wrong += _block(block, f"{path}.ipBlock")
    if not given:
        wrong.append(field_required(path, "must specify a peer"))
    elif given > 1 and block is not None:
        wrong.append(field_forbidden(path, "may not specify both ipBlock and another peer"))
    return wrong


def _block(block: Object, path: str) -> list[FieldError]:
    cidr = block.get("cidr", "")
    if not cidr:
        return [field_required(f"{path}.cidr")]
    wrong = [] if _is_network(cidr) else [field_invalid(f"{path}.cidr", cidr, CIDR_TEXT)]
    for index, each in enumerate(block.get("except") or ()):
        if not _is_network(each):
            wrong.append(field_invalid(f"{path}.except[{index}]", each, CIDR_TEXT))
    return wrong


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _hosts_cell(hosts: list[str]) -> str:
    named = [each for each in hosts if each][:SHOWN]
    if not named:
        return "*"
    more = f" + {len(hosts) - SHOWN} more..." if len(hosts) > SHOWN and len(named) == SHOWN else ""
    return ",".join(named) + more
