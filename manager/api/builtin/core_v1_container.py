# Made by scripts/generate-api-models; do not edit.
"""Types of core/v1: Container, EphemeralContainer."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from manager.api.builtin.part import Part
from manager.api.schema import (
    Int32,
    Int64,
    IntOrString,
    Quantity,
    atomic_list,
    atomic_map,
    list_map,
    list_set,
    server_default,
)

__all__ = [
    "AppArmorProfile",
    "Capabilities",
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "Container",
    "ContainerPort",
    "ContainerResizePolicy",
    "ContainerRestartRule",
    "ContainerRestartRuleOnExitCodes",
    "EnvFromSource",
    "EnvVar",
    "EnvVarSource",
    "EphemeralContainer",
    "ExecAction",
    "FileKeySelector",
    "GRPCAction",
    "HTTPGetAction",
    "HTTPHeader",
    "Lifecycle",
    "LifecycleHandler",
    "ObjectFieldSelector",
    "Probe",
    "ResourceClaim",
    "ResourceFieldSelector",
    "ResourceRequirements",
    "SELinuxOptions",
    "SeccompProfile",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecurityContext",
    "SleepAction",
    "TCPSocketAction",
    "VolumeDevice",
    "VolumeMount",
    "WindowsSecurityContextOptions",
]


class ContainerPort(Part):
    name: str | None = None
    host_port: Int32 | None = None
    container_port: Int32
    protocol: Annotated[str | None, server_default("TCP")] = None
    host_ip: Annotated[str | None, Field(alias="hostIP")] = None


class ConfigMapEnvSource(Part, json_schema_extra=atomic_map()):
    name: Annotated[str | None, server_default("")] = None
    optional: bool | None = None


class SecretEnvSource(Part, json_schema_extra=atomic_map()):
    name: Annotated[str | None, server_default("")] = None
    optional: bool | None = None


class EnvFromSource(Part):
    prefix: str | None = None
    config_map_ref: ConfigMapEnvSource | None = None
    secret_ref: SecretEnvSource | None = None


class ObjectFieldSelector(Part, json_schema_extra=atomic_map()):
    api_version: str | None = None
    field_path: str


class ResourceFieldSelector(Part, json_schema_extra=atomic_map()):
    container_name: str | None = None
    resource: str
    divisor: Quantity | None = None


class ConfigMapKeySelector(Part, json_schema_extra=atomic_map()):
    name: Annotated[str | None, server_default("")] = None
    key: str
    optional: bool | None = None


class SecretKeySelector(Part, json_schema_extra=atomic_map()):
    name: Annotated[str | None, server_default("")] = None
    key: str
    optional: bool | None = None


class FileKeySelector(Part, json_schema_extra=atomic_map()):
    volume_name: str
    path: str
    key: str
    optional: Annotated[bool | None, server_default(False)] = None


class EnvVarSource(Part):
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: ConfigMapKeySelector | None = None
    secret_key_ref: SecretKeySelector | None = None
    file_key_ref: FileKeySelector | None = None


class EnvVar(Part):
    name: str
    value: str | None = None
    value_from: EnvVarSource | None = None


class ResourceClaim(Part):
    name: str
    request: str | None = None


class ResourceRequirements(Part):
    limits: dict[str, Quantity] | None = None
    requests: dict[str, Quantity] | None = None
    claims: Annotated[list[ResourceClaim] | None, list_map("name")] = None


class ContainerResizePolicy(Part):
    resource_name: str
    restart_policy: str


class ContainerRestartRuleOnExitCodes(Part):
    operator: str
    values: Annotated[list[Int32] | None, list_set()] = None


class ContainerRestartRule(Part):
    action: str
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class VolumeMount(Part):
    name: str
    read_only: bool | None = None
    recursive_read_only: str | None = None
    mount_path: str
    sub_path: str | None = None
    mount_propagation: str | None = None
    sub_path_expr: str | None = None


class VolumeDevice(Part):
    name: str
    device_path: str


class ExecAction(Part):
    command: Annotated[list[str] | None, atomic_list()] = None


class HTTPHeader(Part):
    name: str
    value: str


class HTTPGetAction(Part):
    path: str | None = None
    port: IntOrString
    host: str | None = None
    scheme: str | None = None
    http_headers: Annotated[list[HTTPHeader] | None, atomic_list()] = None


class TCPSocketAction(Part):
    port: IntOrString
    host: str | None = None


class GRPCAction(Part):
    port: Int32
    service: Annotated[str | None, server_default("")] = None


class Probe(Part):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None
    initial_delay_seconds: Int32 | None = None
    timeout_seconds: Int32 | None = None
    period_seconds: Int32 | None = None
    success_threshold: Int32 | None = None
    failure_threshold: Int32 | None = None
    termination_grace_period_seconds: Int64 | None = None


class SleepAction(Part):
    seconds: Int64


class LifecycleHandler(Part):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(Part):
    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None


class Capabilities(Part):
    add: Annotated[list[str] | None, atomic_list()] = None
    drop: Annotated[list[str] | None, atomic_list()] = None


class SELinuxOptions(Part):
    user: str | None = None
    role: str | None = None
    type: str | None = None
    level: str | None = None


class WindowsSecurityContextOptions(Part):
    gmsa_credential_spec_name: str | None = None
    gmsa_credential_spec: str | None = None
    run_as_user_name: str | None = None
    host_process: bool | None = None


class SeccompProfile(Part):
    type: str
    localhost_profile: str | None = None


class AppArmorProfile(Part):
    type: str
    localhost_profile: str | None = None


class SecurityContext(Part):
    capabilities: Capabilities | None = None
    privileged: bool | None = None
    se_linux_options: SELinuxOptions | None = None
    windows_options: WindowsSecurityContextOptions | None = None
    run_as_user: Int64 | None = None
    run_as_group: Int64 | None = None
    run_as_non_root: bool | None = None
    read_only_root_filesystem: bool | None = None
    allow_privilege_escalation: bool | None = None
    proc_mount: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None


class Container(Part):
    name: str
    image: str | None = None
    command: Annotated[list[str] | None, atomic_list()] = None
    args: Annotated[list[str] | None, atomic_list()] = None
    working_dir: str | None = None
    ports: Annotated[list[ContainerPort] | None, list_map("containerPort", "protocol")] = None
    env_from: Annotated[list[EnvFromSource] | None, atomic_list()] = None
    env: Annotated[list[EnvVar] | None, list_map("name")] = None
    resources: ResourceRequirements | None = None
    resize_policy: Annotated[list[ContainerResizePolicy] | None, atomic_list()] = None
    restart_policy: str | None = None
    restart_policy_rules: Annotated[list[ContainerRestartRule] | None, atomic_list()] = None
    volume_mounts: Annotated[list[VolumeMount] | None, list_map("mountPath")] = None
    volume_devices: Annotated[list[VolumeDevice] | None, list_map("devicePath")] = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    termination_message_path: str | None = None
    termination_message_policy: str | None = None
    image_pull_policy: str | None = None
    security_context: SecurityContext | None = None
    stdin: bool | None = None
    stdin_once: bool | None = None
    tty: bool | None = None


class EphemeralContainer(Part):
    name: str
    image: str | None = None
    command: Annotated[list[str] | None, atomic_list()] = None
    args: Annotated[list[str] | None, atomic_list()] = None
    working_dir: str | None = None
    ports: Annotated[list[ContainerPort] | None, list_map("containerPort", "protocol")] = None
    env_from: Annotated[list[EnvFromSource] | None, atomic_list()] = None
    env: Annotated[list[EnvVar] | None, list_map("name")] = None
    resources: ResourceRequirements | None = None
    resize_policy: Annotated[list[ContainerResizePolicy] | None, atomic_list()] = None
    restart_policy: str | None = None
    restart_policy_rules: Annotated[list[ContainerRestartRule] | None, atomic_list()] = None
    volume_mounts: Annotated[list[VolumeMount] | None, list_map("mountPath")] = None
    volume_devices: Annotated[list[VolumeDevice] | None, list_map("devicePath")] = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    termination_message_path: str | None = None
    termination_message_policy: str | None = None
    image_pull_policy: str | None = None
    security_context: SecurityContext | None = None
    stdin: bool | None = None
    stdin_once: bool | None = None
    tty: bool | None = None
    target_container_name: str | None = None
