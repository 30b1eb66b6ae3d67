# Made by scripts/generate-api-models; do not edit.
"""Types of core/v1: ServiceSpec."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from manager.api.builtin.part import Part
from manager.api.schema import Int32, IntOrString, atomic_list, atomic_map, list_map, server_default

__all__ = ["ClientIPConfig", "ServicePort", "ServiceSpec", "SessionAffinityConfig"]


class ServicePort(Part):
    name: str | None = None
    protocol: Annotated[str | None, server_default("TCP")] = None
    app_protocol: str | None = None
    port: Int32
    target_port: IntOrString | None = None
    node_port: Int32 | None = None


class ClientIPConfig(Part):
    timeout_seconds: Int32 | None = None


class SessionAffinityConfig(Part):
    client_ip: Annotated[ClientIPConfig | None, Field(alias="clientIP")] = None


class ServiceSpec(Part):
    ports: Annotated[list[ServicePort] | None, list_map("port", "protocol")] = None
    selector: Annotated[dict[str, str] | None, atomic_map()] = None
    cluster_ip: Annotated[str | None, Field(alias="clusterIP")] = None
    cluster_ips: Annotated[list[str] | None, Field(alias="clusterIPs"), atomic_list()] = None
    type: str | None = None
    external_ips: Annotated[list[str] | None, Field(alias="externalIPs"), atomic_list()] = None
    session_affinity: str | None = None
    load_balancer_ip: Annotated[str | None, Field(alias="loadBalancerIP")] = None
    load_balancer_source_ranges: Annotated[list[str] | None, atomic_list()] = None
    external_name: str | None = None
    external_traffic_policy: str | None = None
    health_check_node_port: Int32 | None = None
    publish_not_ready_addresses: bool | None = None
    session_affinity_config: SessionAffinityConfig | None = None
    ip_families: Annotated[list[str] | None, atomic_list()] = None
    ip_family_policy: str | None = None
    allocate_load_balancer_node_ports: bool | None = None
    load_balancer_class: str | None = None
    internal_traffic_policy: str | None = None
    traffic_distribution: str | None = None
