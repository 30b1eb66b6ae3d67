"""Validation of services."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from devcluster.builtin.checks import labels, one_of, port, texts
from devcluster.errors import (
    FieldError,
    field_duplicate,
    field_forbidden,
    field_invalid,
    field_required,
    field_unsupported,
)
from devcluster.names import dns_label, dns_subdomain, label_key, port_number
from devcluster.types.table import choices

__all__ = ["service_checks", "service_update_checks", "valid_address"]

Object = Mapping[str, Any]

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
    wrong += port(each.get("targetPort"), f"{path}.targetPort")
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
