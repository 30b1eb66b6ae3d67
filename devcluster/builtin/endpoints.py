"""Endpoints and EndpointSlices: the addresses behind services."""

# ruff: noqa: ARG002 -- all strategies share these signatures

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from devcluster.builtin.base import Object, StoredStrategy, child, columns
from devcluster.builtin.checks import immutable, one_of, texts
from devcluster.builtin.services import valid_address
from devcluster.errors import (
    FieldError,
    field_duplicate,
    field_invalid,
    field_required,
    field_too_many,
)
from devcluster.names import dns_label, dns_subdomain, port_number
from devcluster.types.table import choices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devcluster.kinds.strategy import Context

__all__ = ["EndpointSliceStrategy", "EndpointsStrategy"]

PROTOCOLS = choices("core.v1.EndpointPort.protocol")
ADDRESS_TYPES = choices("discovery.v1.EndpointSlice.addressType")
MAXIMUM_ENDPOINTS = 1000
MAXIMUM_ADDRESSES = 100
SHOWN = 3


class EndpointsStrategy(StoredStrategy):
    """The rules of endpoints."""

    columns = columns("Name | Endpoints | Age")
    create_on_update = True

    def default(self, obj: Object) -> None:
        """Set the ports' default protocol, TCP."""
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                if not port.get("protocol"):
                    port["protocol"] = "TCP"

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        """Check that the addresses are reachable from elsewhere, and the ports."""
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

    def row(self, obj: Object) -> list[Any]:
        """Return the cells, with the first addresses."""
        return [obj["metadata"].get("name", ""), _endpoints_cell(obj.get("subsets") or ()), self.created(obj)]


class EndpointSliceStrategy(StoredStrategy):
    """The rules of endpoint slices."""

    columns = columns("Name | AddressType | Ports | Endpoints | Age")
    has_generation = True

    def default(self, obj: Object) -> None:
        """Set the ports' default protocol, TCP, and name, ""."""
        for port in obj.get("ports") or ():
            port.setdefault("name", "")
            if not port.get("protocol"):
                port["protocol"] = "TCP"
        for endpoint in obj.get("endpoints") or ():
            child(endpoint, "conditions")
        obj.setdefault("endpoints", None)

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        """Check that the addresses are of the address type, and that the ports' names are unique."""
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
            wrong += one_of(port["protocol"], f"{path}.protocol", PROTOCOLS)
        endpoints = new.get("endpoints") or ()
        if len(endpoints) > MAXIMUM_ENDPOINTS:
            wrong.append(field_too_many("endpoints", len(endpoints), MAXIMUM_ENDPOINTS))
        for index, endpoint in enumerate(endpoints):
            wrong += _addresses(endpoint.get("addresses") or (), kind, f"endpoints[{index}].addresses")
        return wrong

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        """Check the object, and that its address type is unchanged."""
        wrong = self.validate_create(new, context)
        return wrong + immutable(new.get("addressType"), old.get("addressType"), "addressType")

    def row(self, obj: Object) -> list[Any]:
        """Return the cells, with the first ports and addresses."""
        ports = [str(each.get("port") or each.get("name", "*")) for each in obj.get("ports") or ()]
        addresses = [each for one in obj.get("endpoints") or () for each in one.get("addresses") or ()]
        return [
            obj["metadata"].get("name", ""),
            obj.get("addressType", ""),
            _shortened(ports) or "<unset>",
            _shortened(addresses) or "<unset>",
            self.created(obj),
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
    return wrong + one_of(port["protocol"], f"{path}.protocol", PROTOCOLS)


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
