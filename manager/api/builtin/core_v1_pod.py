# Made by scripts/generate-api-models; do not edit.
"""Types of core/v1: PodTemplateSpec."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from manager.api.builtin.core_v1_container import (
    AppArmorProfile,
    Container,
    EphemeralContainer,
    ResourceRequirements,
    SeccompProfile,
    SELinuxOptions,
    WindowsSecurityContextOptions,
)
from manager.api.builtin.core_v1_reference import LocalObjectReference
from manager.api.builtin.core_v1_scheduling import Affinity, Toleration, TopologySpreadConstraint
from manager.api.builtin.core_v1_volume import Volume
from manager.api.builtin.part import Part
from manager.api.meta import ObjectMeta
from manager.api.schema import Int32, Int64, Quantity, atomic_list, atomic_map, list_map

__all__ = [
    "HostAlias",
    "PodDNSConfig",
    "PodDNSConfigOption",
    "PodOS",
    "PodReadinessGate",
    "PodResourceClaim",
    "PodSchedulingGate",
    "PodSchedulingGroup",
    "PodSecurityContext",
    "PodSpec",
    "PodTemplateSpec",
    "Sysctl",
]


class Sysctl(Part):
    name: str
    value: str


class PodSecurityContext(Part):
    se_linux_options: SELinuxOptions | None = None
    windows_options: WindowsSecurityContextOptions | None = None
    run_as_user: Int64 | None = None
    run_as_group: Int64 | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: Annotated[list[Int64] | None, atomic_list()] = None
    supplemental_groups_policy: str | None = None
    fs_group: Int64 | None = None
    sysctls: Annotated[list[Sysctl] | None, atomic_list()] = None
    fs_group_change_policy: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    se_linux_change_policy: str | None = None


class HostAlias(Part):
    ip: str
    hostnames: Annotated[list[str] | None, atomic_list()] = None


class PodDNSConfigOption(Part):
    name: str | None = None
    value: str | None = None


class PodDNSConfig(Part):
    nameservers: Annotated[list[str] | None, atomic_list()] = None
    searches: Annotated[list[str] | None, atomic_list()] = None
    options: Annotated[list[PodDNSConfigOption] | None, atomic_list()] = None


class PodReadinessGate(Part):
    condition_type: str


class PodOS(Part):
    name: str


class PodSchedulingGate(Part):
    name: str


class PodResourceClaim(Part):
    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(Part):
    pod_group_name: str | None = None


class PodSpec(Part):
    volumes: Annotated[list[Volume] | None, list_map("name")] = None
    init_containers: Annotated[list[Container] | None, list_map("name")] = None
    containers: Annotated[list[Container], list_map("name")]
    ephemeral_containers: Annotated[list[EphemeralContainer] | None, list_map("name")] = None
    restart_policy: str | None = None
    termination_grace_period_seconds: Int64 | None = None
    active_deadline_seconds: Int64 | None = None
    dns_policy: str | None = None
    node_selector: Annotated[dict[str, str] | None, atomic_map()] = None
    service_account_name: str | None = None
    service_account: str | None = None
    automount_service_account_token: bool | None = None
    node_name: str | None = None
    host_network: bool | None = None
    host_pid: Annotated[bool | None, Field(alias="hostPID")] = None
    host_ipc: Annotated[bool | None, Field(alias="hostIPC")] = None
    share_process_namespace: bool | None = None
    security_context: PodSecurityContext | None = None
    image_pull_secrets: Annotated[list[LocalObjectReference] | None, list_map("name")] = None
    hostname: str | None = None
    subdomain: str | None = None
    affinity: Affinity | None = None
    scheduler_name: str | None = None
    tolerations: Annotated[list[Toleration] | None, atomic_list()] = None
    host_aliases: Annotated[list[HostAlias] | None, list_map("ip")] = None
    priority_class_name: str | None = None
    priority: Int32 | None = None
    dns_config: PodDNSConfig | None = None
    readiness_gates: Annotated[list[PodReadinessGate] | None, atomic_list()] = None
    runtime_class_name: str | None = None
    enable_service_links: bool | None = None
    preemption_policy: str | None = None
    overhead: dict[str, Quantity] | None = None
    topology_spread_constraints: Annotated[
        list[TopologySpreadConstraint] | None,
        list_map("topologyKey", "whenUnsatisfiable"),
    ] = None
    set_hostname_as_fqdn: Annotated[bool | None, Field(alias="setHostnameAsFQDN")] = None
    os: PodOS | None = None
    host_users: bool | None = None
    scheduling_gates: Annotated[list[PodSchedulingGate] | None, list_map("name")] = None
    resource_claims: Annotated[list[PodResourceClaim] | None, list_map("name")] = None
    resources: ResourceRequirements | None = None
    hostname_override: str | None = None
    scheduling_group: PodSchedulingGroup | None = None


class PodTemplateSpec(Part):
    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None
