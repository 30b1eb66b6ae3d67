# Made by scripts/generate-kinds; do not edit.
from datetime import datetime
from typing import Required, TypedDict

from manager.api import Condition, IntOrString, ObjectMeta, Quantity, Resource
from manager_kinds.factory import Part
from manager_kinds.meta_v1 import ConditionDict, LabelSelector, LabelSelectorDict, ObjectMetaDict
from manager_kinds.methods import SecretMethods

__all__ = [
    "AWSElasticBlockStoreVolumeSource",
    "AWSElasticBlockStoreVolumeSourceDict",
    "Affinity",
    "AffinityDict",
    "AppArmorProfile",
    "AppArmorProfileDict",
    "AttachedVolume",
    "AttachedVolumeDict",
    "AzureDiskVolumeSource",
    "AzureDiskVolumeSourceDict",
    "AzureFilePersistentVolumeSource",
    "AzureFilePersistentVolumeSourceDict",
    "AzureFileVolumeSource",
    "AzureFileVolumeSourceDict",
    "CSIPersistentVolumeSource",
    "CSIPersistentVolumeSourceDict",
    "CSIVolumeSource",
    "CSIVolumeSourceDict",
    "Capabilities",
    "CapabilitiesDict",
    "CephFSPersistentVolumeSource",
    "CephFSPersistentVolumeSourceDict",
    "CephFSVolumeSource",
    "CephFSVolumeSourceDict",
    "CinderPersistentVolumeSource",
    "CinderPersistentVolumeSourceDict",
    "CinderVolumeSource",
    "CinderVolumeSourceDict",
    "ClientIPConfig",
    "ClientIPConfigDict",
    "ClusterTrustBundleProjection",
    "ClusterTrustBundleProjectionDict",
    "ConfigMap",
    "ConfigMapEnvSource",
    "ConfigMapEnvSourceDict",
    "ConfigMapKeySelector",
    "ConfigMapKeySelectorDict",
    "ConfigMapNodeConfigSource",
    "ConfigMapNodeConfigSourceDict",
    "ConfigMapProjection",
    "ConfigMapProjectionDict",
    "ConfigMapVolumeSource",
    "ConfigMapVolumeSourceDict",
    "Container",
    "ContainerDict",
    "ContainerExtendedResourceRequest",
    "ContainerExtendedResourceRequestDict",
    "ContainerImage",
    "ContainerImageDict",
    "ContainerPort",
    "ContainerPortDict",
    "ContainerResizePolicy",
    "ContainerResizePolicyDict",
    "ContainerRestartRule",
    "ContainerRestartRuleDict",
    "ContainerRestartRuleOnExitCodes",
    "ContainerRestartRuleOnExitCodesDict",
    "ContainerState",
    "ContainerStateDict",
    "ContainerStateRunning",
    "ContainerStateRunningDict",
    "ContainerStateTerminated",
    "ContainerStateTerminatedDict",
    "ContainerStateWaiting",
    "ContainerStateWaitingDict",
    "ContainerStatus",
    "ContainerStatusDict",
    "ContainerUser",
    "ContainerUserDict",
    "DaemonEndpoint",
    "DaemonEndpointDict",
    "DownwardAPIProjection",
    "DownwardAPIProjectionDict",
    "DownwardAPIVolumeFile",
    "DownwardAPIVolumeFileDict",
    "DownwardAPIVolumeSource",
    "DownwardAPIVolumeSourceDict",
    "EmbeddedPersistentVolumeClaim",
    "EmbeddedPersistentVolumeClaimDict",
    "EmptyDirVolumeSource",
    "EmptyDirVolumeSourceDict",
    "EndpointAddress",
    "EndpointAddressDict",
    "EndpointPort",
    "EndpointPortDict",
    "EndpointSubset",
    "EndpointSubsetDict",
    "Endpoints",
    "EnvFromSource",
    "EnvFromSourceDict",
    "EnvVar",
    "EnvVarDict",
    "EnvVarSource",
    "EnvVarSourceDict",
    "EphemeralContainer",
    "EphemeralContainerDict",
    "EphemeralVolumeSource",
    "EphemeralVolumeSourceDict",
    "Event",
    "EventSeries",
    "EventSeriesDict",
    "EventSource",
    "EventSourceDict",
    "ExecAction",
    "ExecActionDict",
    "FCVolumeSource",
    "FCVolumeSourceDict",
    "FileKeySelector",
    "FileKeySelectorDict",
    "FlexPersistentVolumeSource",
    "FlexPersistentVolumeSourceDict",
    "FlexVolumeSource",
    "FlexVolumeSourceDict",
    "FlockerVolumeSource",
    "FlockerVolumeSourceDict",
    "GCEPersistentDiskVolumeSource",
    "GCEPersistentDiskVolumeSourceDict",
    "GRPCAction",
    "GRPCActionDict",
    "GitRepoVolumeSource",
    "GitRepoVolumeSourceDict",
    "GlusterfsPersistentVolumeSource",
    "GlusterfsPersistentVolumeSourceDict",
    "GlusterfsVolumeSource",
    "GlusterfsVolumeSourceDict",
    "HTTPGetAction",
    "HTTPGetActionDict",
    "HTTPHeader",
    "HTTPHeaderDict",
    "HostAlias",
    "HostAliasDict",
    "HostIP",
    "HostIPDict",
    "HostPathVolumeSource",
    "HostPathVolumeSourceDict",
    "ISCSIPersistentVolumeSource",
    "ISCSIPersistentVolumeSourceDict",
    "ISCSIVolumeSource",
    "ISCSIVolumeSourceDict",
    "ImageVolumeSource",
    "ImageVolumeSourceDict",
    "ImageVolumeStatus",
    "ImageVolumeStatusDict",
    "KeyToPath",
    "KeyToPathDict",
    "Lifecycle",
    "LifecycleDict",
    "LifecycleHandler",
    "LifecycleHandlerDict",
    "LimitRange",
    "LimitRangeItem",
    "LimitRangeItemDict",
    "LimitRangeSpec",
    "LimitRangeSpecDict",
    "LinuxContainerUser",
    "LinuxContainerUserDict",
    "LoadBalancerIngress",
    "LoadBalancerIngressDict",
    "LoadBalancerStatus",
    "LoadBalancerStatusDict",
    "LocalObjectReference",
    "LocalObjectReferenceDict",
    "LocalVolumeSource",
    "LocalVolumeSourceDict",
    "ModifyVolumeStatus",
    "ModifyVolumeStatusDict",
    "NFSVolumeSource",
    "NFSVolumeSourceDict",
    "Namespace",
    "NamespaceCondition",
    "NamespaceConditionDict",
    "NamespaceSpec",
    "NamespaceSpecDict",
    "NamespaceStatus",
    "NamespaceStatusDict",
    "Node",
    "NodeAddress",
    "NodeAddressDict",
    "NodeAffinity",
    "NodeAffinityDict",
    "NodeAllocatableResourceClaimStatus",
    "NodeAllocatableResourceClaimStatusDict",
    "NodeCondition",
    "NodeConditionDict",
    "NodeConfigSource",
    "NodeConfigSourceDict",
    "NodeConfigStatus",
    "NodeConfigStatusDict",
    "NodeDaemonEndpoints",
    "NodeDaemonEndpointsDict",
    "NodeFeatures",
    "NodeFeaturesDict",
    "NodeRuntimeHandler",
    "NodeRuntimeHandlerDict",
    "NodeRuntimeHandlerFeatures",
    "NodeRuntimeHandlerFeaturesDict",
    "NodeSelector",
    "NodeSelectorDict",
    "NodeSelectorRequirement",
    "NodeSelectorRequirementDict",
    "NodeSelectorTerm",
    "NodeSelectorTermDict",
    "NodeSpec",
    "NodeSpecDict",
    "NodeStatus",
    "NodeStatusDict",
    "NodeSwapStatus",
    "NodeSwapStatusDict",
    "NodeSystemInfo",
    "NodeSystemInfoDict",
    "ObjectFieldSelector",
    "ObjectFieldSelectorDict",
    "ObjectReference",
    "ObjectReferenceDict",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimCondition",
    "PersistentVolumeClaimConditionDict",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimSpecDict",
    "PersistentVolumeClaimStatus",
    "PersistentVolumeClaimStatusDict",
    "PersistentVolumeClaimTemplate",
    "PersistentVolumeClaimTemplateDict",
    "PersistentVolumeClaimVolumeSource",
    "PersistentVolumeClaimVolumeSourceDict",
    "PersistentVolumeSpec",
    "PersistentVolumeSpecDict",
    "PersistentVolumeStatus",
    "PersistentVolumeStatusDict",
    "PhotonPersistentDiskVolumeSource",
    "PhotonPersistentDiskVolumeSourceDict",
    "Pod",
    "PodAffinity",
    "PodAffinityDict",
    "PodAffinityTerm",
    "PodAffinityTermDict",
    "PodAntiAffinity",
    "PodAntiAffinityDict",
    "PodCertificateProjection",
    "PodCertificateProjectionDict",
    "PodCondition",
    "PodConditionDict",
    "PodDNSConfig",
    "PodDNSConfigDict",
    "PodDNSConfigOption",
    "PodDNSConfigOptionDict",
    "PodExtendedResourceClaimStatus",
    "PodExtendedResourceClaimStatusDict",
    "PodIP",
    "PodIPDict",
    "PodOS",
    "PodOSDict",
    "PodReadinessGate",
    "PodReadinessGateDict",
    "PodResourceClaim",
    "PodResourceClaimDict",
    "PodResourceClaimStatus",
    "PodResourceClaimStatusDict",
    "PodSchedulingGate",
    "PodSchedulingGateDict",
    "PodSchedulingGroup",
    "PodSchedulingGroupDict",
    "PodSecurityContext",
    "PodSecurityContextDict",
    "PodSpec",
    "PodSpecDict",
    "PodStatus",
    "PodStatusDict",
    "PodTemplate",
    "PodTemplateSpec",
    "PodTemplateSpecDict",
    "PortStatus",
    "PortStatusDict",
    "PortworxVolumeSource",
    "PortworxVolumeSourceDict",
    "PreferredSchedulingTerm",
    "PreferredSchedulingTermDict",
    "Probe",
    "ProbeDict",
    "ProjectedVolumeSource",
    "ProjectedVolumeSourceDict",
    "QuobyteVolumeSource",
    "QuobyteVolumeSourceDict",
    "RBDPersistentVolumeSource",
    "RBDPersistentVolumeSourceDict",
    "RBDVolumeSource",
    "RBDVolumeSourceDict",
    "ReplicationController",
    "ReplicationControllerCondition",
    "ReplicationControllerConditionDict",
    "ReplicationControllerSpec",
    "ReplicationControllerSpecDict",
    "ReplicationControllerStatus",
    "ReplicationControllerStatusDict",
    "ResourceClaim",
    "ResourceClaimDict",
    "ResourceFieldSelector",
    "ResourceFieldSelectorDict",
    "ResourceHealth",
    "ResourceHealthDict",
    "ResourceQuota",
    "ResourceQuotaSpec",
    "ResourceQuotaSpecDict",
    "ResourceQuotaStatus",
    "ResourceQuotaStatusDict",
    "ResourceRequirements",
    "ResourceRequirementsDict",
    "ResourceStatus",
    "ResourceStatusDict",
    "SELinuxOptions",
    "SELinuxOptionsDict",
    "ScaleIOPersistentVolumeSource",
    "ScaleIOPersistentVolumeSourceDict",
    "ScaleIOVolumeSource",
    "ScaleIOVolumeSourceDict",
    "ScopeSelector",
    "ScopeSelectorDict",
    "ScopedResourceSelectorRequirement",
    "ScopedResourceSelectorRequirementDict",
    "SeccompProfile",
    "SeccompProfileDict",
    "Secret",
    "SecretEnvSource",
    "SecretEnvSourceDict",
    "SecretKeySelector",
    "SecretKeySelectorDict",
    "SecretProjection",
    "SecretProjectionDict",
    "SecretReference",
    "SecretReferenceDict",
    "SecretVolumeSource",
    "SecretVolumeSourceDict",
    "SecurityContext",
    "SecurityContextDict",
    "Service",
    "ServiceAccount",
    "ServiceAccountTokenProjection",
    "ServiceAccountTokenProjectionDict",
    "ServicePort",
    "ServicePortDict",
    "ServiceSpec",
    "ServiceSpecDict",
    "ServiceStatus",
    "ServiceStatusDict",
    "SessionAffinityConfig",
    "SessionAffinityConfigDict",
    "SleepAction",
    "SleepActionDict",
    "StorageOSPersistentVolumeSource",
    "StorageOSPersistentVolumeSourceDict",
    "StorageOSVolumeSource",
    "StorageOSVolumeSourceDict",
    "Sysctl",
    "SysctlDict",
    "TCPSocketAction",
    "TCPSocketActionDict",
    "Taint",
    "TaintDict",
    "Toleration",
    "TolerationDict",
    "TopologySelectorLabelRequirement",
    "TopologySelectorLabelRequirementDict",
    "TopologySelectorTerm",
    "TopologySelectorTermDict",
    "TopologySpreadConstraint",
    "TopologySpreadConstraintDict",
    "TypedLocalObjectReference",
    "TypedLocalObjectReferenceDict",
    "TypedObjectReference",
    "TypedObjectReferenceDict",
    "Volume",
    "VolumeDevice",
    "VolumeDeviceDict",
    "VolumeDict",
    "VolumeMount",
    "VolumeMountDict",
    "VolumeMountStatus",
    "VolumeMountStatusDict",
    "VolumeNodeAffinity",
    "VolumeNodeAffinityDict",
    "VolumeProjection",
    "VolumeProjectionDict",
    "VolumeResourceRequirements",
    "VolumeResourceRequirementsDict",
    "VolumeStatus",
    "VolumeStatusDict",
    "VsphereVirtualDiskVolumeSource",
    "VsphereVirtualDiskVolumeSourceDict",
    "WeightedPodAffinityTerm",
    "WeightedPodAffinityTermDict",
    "WindowsSecurityContextOptions",
    "WindowsSecurityContextOptionsDict",
]

class AWSElasticBlockStoreVolumeSource(Part[AWSElasticBlockStoreVolumeSourceDict]):
    volume_id: str
    fs_type: str | None = None
    partition: int | None = None
    read_only: bool | None = None

class AWSElasticBlockStoreVolumeSourceDict(TypedDict, total=False):
    volumeID: Required[str]
    fsType: str
    partition: int
    readOnly: bool

class Affinity(Part[AffinityDict]):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None

class AffinityDict(TypedDict, total=False):
    nodeAffinity: NodeAffinityDict
    podAffinity: PodAffinityDict
    podAntiAffinity: PodAntiAffinityDict

class AppArmorProfile(Part[AppArmorProfileDict]):
    type: str
    localhost_profile: str | None = None

class AppArmorProfileDict(TypedDict, total=False):
    type: Required[str]
    localhostProfile: str

class AttachedVolume(Part[AttachedVolumeDict]):
    name: str
    device_path: str

class AttachedVolumeDict(TypedDict, total=False):
    name: Required[str]
    devicePath: Required[str]

class AzureDiskVolumeSource(Part[AzureDiskVolumeSourceDict]):
    disk_name: str
    disk_uri: str
    caching_mode: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    kind: str | None = None

class AzureDiskVolumeSourceDict(TypedDict, total=False):
    diskName: Required[str]
    diskURI: Required[str]
    cachingMode: str
    fsType: str
    readOnly: bool
    kind: str

class AzureFilePersistentVolumeSource(Part[AzureFilePersistentVolumeSourceDict]):
    secret_name: str
    share_name: str
    read_only: bool | None = None
    secret_namespace: str | None = None

class AzureFilePersistentVolumeSourceDict(TypedDict, total=False):
    secretName: Required[str]
    shareName: Required[str]
    readOnly: bool
    secretNamespace: str

class AzureFileVolumeSource(Part[AzureFileVolumeSourceDict]):
    secret_name: str
    share_name: str
    read_only: bool | None = None

class AzureFileVolumeSourceDict(TypedDict, total=False):
    secretName: Required[str]
    shareName: Required[str]
    readOnly: bool

class CSIPersistentVolumeSource(Part[CSIPersistentVolumeSourceDict]):
    driver: str
    volume_handle: str
    read_only: bool | None = None
    fs_type: str | None = None
    volume_attributes: dict[str, str] | None = None
    controller_publish_secret_ref: SecretReference | None = None
    node_stage_secret_ref: SecretReference | None = None
    node_publish_secret_ref: SecretReference | None = None
    controller_expand_secret_ref: SecretReference | None = None
    node_expand_secret_ref: SecretReference | None = None

class CSIPersistentVolumeSourceDict(TypedDict, total=False):
    driver: Required[str]
    volumeHandle: Required[str]
    readOnly: bool
    fsType: str
    volumeAttributes: dict[str, str]
    controllerPublishSecretRef: SecretReferenceDict
    nodeStageSecretRef: SecretReferenceDict
    nodePublishSecretRef: SecretReferenceDict
    controllerExpandSecretRef: SecretReferenceDict
    nodeExpandSecretRef: SecretReferenceDict

class CSIVolumeSource(Part[CSIVolumeSourceDict]):
    driver: str
    read_only: bool | None = None
    fs_type: str | None = None
    volume_attributes: dict[str, str] | None = None
    node_publish_secret_ref: LocalObjectReference | None = None

class CSIVolumeSourceDict(TypedDict, total=False):
    driver: Required[str]
    readOnly: bool
    fsType: str
    volumeAttributes: dict[str, str]
    nodePublishSecretRef: LocalObjectReferenceDict

class Capabilities(Part[CapabilitiesDict]):
    add: list[str] | None = None
    drop: list[str] | None = None

class CapabilitiesDict(TypedDict, total=False):
    add: list[str]
    drop: list[str]

class CephFSPersistentVolumeSource(Part[CephFSPersistentVolumeSourceDict]):
    monitors: list[str]
    path: str | None = None
    user: str | None = None
    secret_file: str | None = None
    secret_ref: SecretReference | None = None
    read_only: bool | None = None

class CephFSPersistentVolumeSourceDict(TypedDict, total=False):
    monitors: Required[list[str]]
    path: str
    user: str
    secretFile: str
    secretRef: SecretReferenceDict
    readOnly: bool

class CephFSVolumeSource(Part[CephFSVolumeSourceDict]):
    monitors: list[str]
    path: str | None = None
    user: str | None = None
    secret_file: str | None = None
    secret_ref: LocalObjectReference | None = None
    read_only: bool | None = None

class CephFSVolumeSourceDict(TypedDict, total=False):
    monitors: Required[list[str]]
    path: str
    user: str
    secretFile: str
    secretRef: LocalObjectReferenceDict
    readOnly: bool

class CinderPersistentVolumeSource(Part[CinderPersistentVolumeSourceDict]):
    volume_id: str
    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: SecretReference | None = None

class CinderPersistentVolumeSourceDict(TypedDict, total=False):
    volumeID: Required[str]
    fsType: str
    readOnly: bool
    secretRef: SecretReferenceDict

class CinderVolumeSource(Part[CinderVolumeSourceDict]):
    volume_id: str
    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None

class CinderVolumeSourceDict(TypedDict, total=False):
    volumeID: Required[str]
    fsType: str
    readOnly: bool
    secretRef: LocalObjectReferenceDict

class ClientIPConfig(Part[ClientIPConfigDict]):
    timeout_seconds: int | None = None

class ClientIPConfigDict(TypedDict, total=False):
    timeoutSeconds: int

class ClusterTrustBundleProjection(Part[ClusterTrustBundleProjectionDict]):
    name: str | None = None
    signer_name: str | None = None
    label_selector: LabelSelector | None = None
    optional: bool | None = None
    path: str

class ClusterTrustBundleProjectionDict(TypedDict, total=False):
    name: str
    signerName: str
    labelSelector: LabelSelectorDict
    optional: bool
    path: Required[str]

class ConfigMap(Resource, group="", version="v1", plural="configmaps"):
    """ConfigMap of v1."""

    immutable: bool | None = None
    data: dict[str, str] | None = None
    binary_data: dict[str, str | None] | None = None

class ConfigMapEnvSource(Part[ConfigMapEnvSourceDict]):
    name: str | None = None
    optional: bool | None = None

class ConfigMapEnvSourceDict(TypedDict, total=False):
    name: str
    optional: bool

class ConfigMapKeySelector(Part[ConfigMapKeySelectorDict]):
    name: str | None = None
    key: str
    optional: bool | None = None

class ConfigMapKeySelectorDict(TypedDict, total=False):
    name: str
    key: Required[str]
    optional: bool

class ConfigMapNodeConfigSource(Part[ConfigMapNodeConfigSourceDict]):
    namespace: str
    name: str
    uid: str | None = None
    resource_version: str | None = None
    kubelet_config_key: str

class ConfigMapNodeConfigSourceDict(TypedDict, total=False):
    namespace: Required[str]
    name: Required[str]
    uid: str
    resourceVersion: str
    kubeletConfigKey: Required[str]

class ConfigMapProjection(Part[ConfigMapProjectionDict]):
    name: str | None = None
    items: list[KeyToPath] | None = None
    optional: bool | None = None

class ConfigMapProjectionDict(TypedDict, total=False):
    name: str
    items: list[KeyToPathDict]
    optional: bool

class ConfigMapVolumeSource(Part[ConfigMapVolumeSourceDict]):
    name: str | None = None
    items: list[KeyToPath] | None = None
    default_mode: int | None = None
    optional: bool | None = None

class ConfigMapVolumeSourceDict(TypedDict, total=False):
    name: str
    items: list[KeyToPathDict]
    defaultMode: int
    optional: bool

class Container(Part[ContainerDict]):
    name: str
    image: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    working_dir: str | None = None
    ports: list[ContainerPort] | None = None
    env_from: list[EnvFromSource] | None = None
    env: list[EnvVar] | None = None
    resources: ResourceRequirements | None = None
    resize_policy: list[ContainerResizePolicy] | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[ContainerRestartRule] | None = None
    volume_mounts: list[VolumeMount] | None = None
    volume_devices: list[VolumeDevice] | None = None
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

class ContainerDict(TypedDict, total=False):
    name: Required[str]
    image: str
    command: list[str]
    args: list[str]
    workingDir: str
    ports: list[ContainerPortDict]
    envFrom: list[EnvFromSourceDict]
    env: list[EnvVarDict]
    resources: ResourceRequirementsDict
    resizePolicy: list[ContainerResizePolicyDict]
    restartPolicy: str
    restartPolicyRules: list[ContainerRestartRuleDict]
    volumeMounts: list[VolumeMountDict]
    volumeDevices: list[VolumeDeviceDict]
    livenessProbe: ProbeDict
    readinessProbe: ProbeDict
    startupProbe: ProbeDict
    lifecycle: LifecycleDict
    terminationMessagePath: str
    terminationMessagePolicy: str
    imagePullPolicy: str
    securityContext: SecurityContextDict
    stdin: bool
    stdinOnce: bool
    tty: bool

class ContainerExtendedResourceRequest(Part[ContainerExtendedResourceRequestDict]):
    container_name: str
    resource_name: str
    request_name: str

class ContainerExtendedResourceRequestDict(TypedDict, total=False):
    containerName: Required[str]
    resourceName: Required[str]
    requestName: Required[str]

class ContainerImage(Part[ContainerImageDict]):
    names: list[str] | None = None
    size_bytes: int | None = None

class ContainerImageDict(TypedDict, total=False):
    names: list[str]
    sizeBytes: int

class ContainerPort(Part[ContainerPortDict]):
    name: str | None = None
    host_port: int | None = None
    container_port: int
    protocol: str | None = None
    host_ip: str | None = None

class ContainerPortDict(TypedDict, total=False):
    name: str
    hostPort: int
    containerPort: Required[int]
    protocol: str
    hostIP: str

class ContainerResizePolicy(Part[ContainerResizePolicyDict]):
    resource_name: str
    restart_policy: str

class ContainerResizePolicyDict(TypedDict, total=False):
    resourceName: Required[str]
    restartPolicy: Required[str]

class ContainerRestartRule(Part[ContainerRestartRuleDict]):
    action: str
    exit_codes: ContainerRestartRuleOnExitCodes | None = None

class ContainerRestartRuleDict(TypedDict, total=False):
    action: Required[str]
    exitCodes: ContainerRestartRuleOnExitCodesDict

class ContainerRestartRuleOnExitCodes(Part[ContainerRestartRuleOnExitCodesDict]):
    operator: str
    values: list[int] | None = None

class ContainerRestartRuleOnExitCodesDict(TypedDict, total=False):
    operator: Required[str]
    values: list[int]

class ContainerState(Part[ContainerStateDict]):
    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None

class ContainerStateDict(TypedDict, total=False):
    waiting: ContainerStateWaitingDict
    running: ContainerStateRunningDict
    terminated: ContainerStateTerminatedDict

class ContainerStateRunning(Part[ContainerStateRunningDict]):
    started_at: datetime | None = None

class ContainerStateRunningDict(TypedDict, total=False):
    startedAt: str

class ContainerStateTerminated(Part[ContainerStateTerminatedDict]):
    exit_code: int
    signal: int | None = None
    reason: str | None = None
    message: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    container_id: str | None = None

class ContainerStateTerminatedDict(TypedDict, total=False):
    exitCode: Required[int]
    signal: int
    reason: str
    message: str
    startedAt: str
    finishedAt: str
    containerID: str

class ContainerStateWaiting(Part[ContainerStateWaitingDict]):
    reason: str | None = None
    message: str | None = None

class ContainerStateWaitingDict(TypedDict, total=False):
    reason: str
    message: str

class ContainerStatus(Part[ContainerStatusDict]):
    name: str
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    ready: bool
    restart_count: int
    image: str
    image_id: str
    container_id: str | None = None
    started: bool | None = None
    allocated_resources: dict[str, Quantity] | None = None
    resources: ResourceRequirements | None = None
    volume_mounts: list[VolumeMountStatus] | None = None
    user: ContainerUser | None = None
    allocated_resources_status: list[ResourceStatus] | None = None
    stop_signal: str | None = None

class ContainerStatusDict(TypedDict, total=False):
    name: Required[str]
    state: ContainerStateDict
    lastState: ContainerStateDict
    ready: Required[bool]
    restartCount: Required[int]
    image: Required[str]
    imageID: Required[str]
    containerID: str
    started: bool
    allocatedResources: dict[str, Quantity]
    resources: ResourceRequirementsDict
    volumeMounts: list[VolumeMountStatusDict]
    user: ContainerUserDict
    allocatedResourcesStatus: list[ResourceStatusDict]
    stopSignal: str

class ContainerUser(Part[ContainerUserDict]):
    linux: LinuxContainerUser | None = None

class ContainerUserDict(TypedDict, total=False):
    linux: LinuxContainerUserDict

class DaemonEndpoint(Part[DaemonEndpointDict]):
    port: int

class DaemonEndpointDict(TypedDict, total=False):
    Port: Required[int]

class DownwardAPIProjection(Part[DownwardAPIProjectionDict]):
    items: list[DownwardAPIVolumeFile] | None = None

class DownwardAPIProjectionDict(TypedDict, total=False):
    items: list[DownwardAPIVolumeFileDict]

class DownwardAPIVolumeFile(Part[DownwardAPIVolumeFileDict]):
    path: str
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: int | None = None

class DownwardAPIVolumeFileDict(TypedDict, total=False):
    path: Required[str]
    fieldRef: ObjectFieldSelectorDict
    resourceFieldRef: ResourceFieldSelectorDict
    mode: int

class DownwardAPIVolumeSource(Part[DownwardAPIVolumeSourceDict]):
    items: list[DownwardAPIVolumeFile] | None = None
    default_mode: int | None = None

class DownwardAPIVolumeSourceDict(TypedDict, total=False):
    items: list[DownwardAPIVolumeFileDict]
    defaultMode: int

class EmbeddedPersistentVolumeClaim(Part[EmbeddedPersistentVolumeClaimDict]):
    kind: str | None = None
    api_version: str | None = None
    metadata: ObjectMeta | None = None
    spec: PersistentVolumeClaimSpec | None = None
    status: PersistentVolumeClaimStatus | None = None

class EmbeddedPersistentVolumeClaimDict(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMetaDict
    spec: PersistentVolumeClaimSpecDict
    status: PersistentVolumeClaimStatusDict

class EmptyDirVolumeSource(Part[EmptyDirVolumeSourceDict]):
    medium: str | None = None
    size_limit: Quantity | None = None

class EmptyDirVolumeSourceDict(TypedDict, total=False):
    medium: str
    sizeLimit: Quantity

class EndpointAddress(Part[EndpointAddressDict]):
    ip: str
    hostname: str | None = None
    node_name: str | None = None
    target_ref: ObjectReference | None = None

class EndpointAddressDict(TypedDict, total=False):
    ip: Required[str]
    hostname: str
    nodeName: str
    targetRef: ObjectReferenceDict

class EndpointPort(Part[EndpointPortDict]):
    name: str | None = None
    port: int
    protocol: str | None = None
    app_protocol: str | None = None

class EndpointPortDict(TypedDict, total=False):
    name: str
    port: Required[int]
    protocol: str
    appProtocol: str

class EndpointSubset(Part[EndpointSubsetDict]):
    addresses: list[EndpointAddress] | None = None
    not_ready_addresses: list[EndpointAddress] | None = None
    ports: list[EndpointPort] | None = None

class EndpointSubsetDict(TypedDict, total=False):
    addresses: list[EndpointAddressDict]
    notReadyAddresses: list[EndpointAddressDict]
    ports: list[EndpointPortDict]

class Endpoints(Resource, group="", version="v1", plural="endpoints"):
    """Endpoints of v1."""

    subsets: list[EndpointSubsetDict] | None = None

class EnvFromSource(Part[EnvFromSourceDict]):
    prefix: str | None = None
    config_map_ref: ConfigMapEnvSource | None = None
    secret_ref: SecretEnvSource | None = None

class EnvFromSourceDict(TypedDict, total=False):
    prefix: str
    configMapRef: ConfigMapEnvSourceDict
    secretRef: SecretEnvSourceDict

class EnvVar(Part[EnvVarDict]):
    name: str
    value: str | None = None
    value_from: EnvVarSource | None = None

class EnvVarDict(TypedDict, total=False):
    name: Required[str]
    value: str
    valueFrom: EnvVarSourceDict

class EnvVarSource(Part[EnvVarSourceDict]):
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: ConfigMapKeySelector | None = None
    secret_key_ref: SecretKeySelector | None = None
    file_key_ref: FileKeySelector | None = None

class EnvVarSourceDict(TypedDict, total=False):
    fieldRef: ObjectFieldSelectorDict
    resourceFieldRef: ResourceFieldSelectorDict
    configMapKeyRef: ConfigMapKeySelectorDict
    secretKeyRef: SecretKeySelectorDict
    fileKeyRef: FileKeySelectorDict

class EphemeralContainer(Part[EphemeralContainerDict]):
    name: str
    image: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    working_dir: str | None = None
    ports: list[ContainerPort] | None = None
    env_from: list[EnvFromSource] | None = None
    env: list[EnvVar] | None = None
    resources: ResourceRequirements | None = None
    resize_policy: list[ContainerResizePolicy] | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[ContainerRestartRule] | None = None
    volume_mounts: list[VolumeMount] | None = None
    volume_devices: list[VolumeDevice] | None = None
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

class EphemeralContainerDict(TypedDict, total=False):
    name: Required[str]
    image: str
    command: list[str]
    args: list[str]
    workingDir: str
    ports: list[ContainerPortDict]
    envFrom: list[EnvFromSourceDict]
    env: list[EnvVarDict]
    resources: ResourceRequirementsDict
    resizePolicy: list[ContainerResizePolicyDict]
    restartPolicy: str
    restartPolicyRules: list[ContainerRestartRuleDict]
    volumeMounts: list[VolumeMountDict]
    volumeDevices: list[VolumeDeviceDict]
    livenessProbe: ProbeDict
    readinessProbe: ProbeDict
    startupProbe: ProbeDict
    lifecycle: LifecycleDict
    terminationMessagePath: str
    terminationMessagePolicy: str
    imagePullPolicy: str
    securityContext: SecurityContextDict
    stdin: bool
    stdinOnce: bool
    tty: bool
    targetContainerName: str

class EphemeralVolumeSource(Part[EphemeralVolumeSourceDict]):
    volume_claim_template: PersistentVolumeClaimTemplate | None = None

class EphemeralVolumeSourceDict(TypedDict, total=False):
    volumeClaimTemplate: PersistentVolumeClaimTemplateDict

class Event(Resource, group="", version="v1", plural="events"):
    """Event of v1."""

    involved_object: ObjectReferenceDict
    reason: str | None = None
    message: str | None = None
    source: EventSourceDict | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    count: int | None = None
    type: str | None = None
    event_time: str | None = None
    series: EventSeriesDict | None = None
    action: str | None = None
    related: ObjectReferenceDict | None = None
    reporting_component: str | None = None
    reporting_instance: str | None = None

class EventSeries(Part[EventSeriesDict]):
    count: int | None = None
    last_observed_time: datetime | None = None

class EventSeriesDict(TypedDict, total=False):
    count: int
    lastObservedTime: str

class EventSource(Part[EventSourceDict]):
    component: str | None = None
    host: str | None = None

class EventSourceDict(TypedDict, total=False):
    component: str
    host: str

class ExecAction(Part[ExecActionDict]):
    command: list[str] | None = None

class ExecActionDict(TypedDict, total=False):
    command: list[str]

class FCVolumeSource(Part[FCVolumeSourceDict]):
    target_wwns: list[str] | None = None
    lun: int | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    wwids: list[str] | None = None

class FCVolumeSourceDict(TypedDict, total=False):
    targetWWNs: list[str]
    lun: int
    fsType: str
    readOnly: bool
    wwids: list[str]

class FileKeySelector(Part[FileKeySelectorDict]):
    volume_name: str
    path: str
    key: str
    optional: bool | None = None

class FileKeySelectorDict(TypedDict, total=False):
    volumeName: Required[str]
    path: Required[str]
    key: Required[str]
    optional: bool

class FlexPersistentVolumeSource(Part[FlexPersistentVolumeSourceDict]):
    driver: str
    fs_type: str | None = None
    secret_ref: SecretReference | None = None
    read_only: bool | None = None
    options: dict[str, str] | None = None

class FlexPersistentVolumeSourceDict(TypedDict, total=False):
    driver: Required[str]
    fsType: str
    secretRef: SecretReferenceDict
    readOnly: bool
    options: dict[str, str]

class FlexVolumeSource(Part[FlexVolumeSourceDict]):
    driver: str
    fs_type: str | None = None
    secret_ref: LocalObjectReference | None = None
    read_only: bool | None = None
    options: dict[str, str] | None = None

class FlexVolumeSourceDict(TypedDict, total=False):
    driver: Required[str]
    fsType: str
    secretRef: LocalObjectReferenceDict
    readOnly: bool
    options: dict[str, str]

class FlockerVolumeSource(Part[FlockerVolumeSourceDict]):
    dataset_name: str | None = None
    dataset_uuid: str | None = None

class FlockerVolumeSourceDict(TypedDict, total=False):
    datasetName: str
    datasetUUID: str

class GCEPersistentDiskVolumeSource(Part[GCEPersistentDiskVolumeSourceDict]):
    pd_name: str
    fs_type: str | None = None
    partition: int | None = None
    read_only: bool | None = None

class GCEPersistentDiskVolumeSourceDict(TypedDict, total=False):
    pdName: Required[str]
    fsType: str
    partition: int
    readOnly: bool

class GRPCAction(Part[GRPCActionDict]):
    port: int
    service: str | None = None

class GRPCActionDict(TypedDict, total=False):
    port: Required[int]
    service: str

class GitRepoVolumeSource(Part[GitRepoVolumeSourceDict]):
    repository: str
    revision: str | None = None
    directory: str | None = None

class GitRepoVolumeSourceDict(TypedDict, total=False):
    repository: Required[str]
    revision: str
    directory: str

class GlusterfsPersistentVolumeSource(Part[GlusterfsPersistentVolumeSourceDict]):
    endpoints: str
    path: str
    read_only: bool | None = None
    endpoints_namespace: str | None = None

class GlusterfsPersistentVolumeSourceDict(TypedDict, total=False):
    endpoints: Required[str]
    path: Required[str]
    readOnly: bool
    endpointsNamespace: str

class GlusterfsVolumeSource(Part[GlusterfsVolumeSourceDict]):
    endpoints: str
    path: str
    read_only: bool | None = None

class GlusterfsVolumeSourceDict(TypedDict, total=False):
    endpoints: Required[str]
    path: Required[str]
    readOnly: bool

class HTTPGetAction(Part[HTTPGetActionDict]):
    path: str | None = None
    port: IntOrString
    host: str | None = None
    scheme: str | None = None
    http_headers: list[HTTPHeader] | None = None

class HTTPGetActionDict(TypedDict, total=False):
    path: str
    port: Required[IntOrString]
    host: str
    scheme: str
    httpHeaders: list[HTTPHeaderDict]

class HTTPHeader(Part[HTTPHeaderDict]):
    name: str
    value: str

class HTTPHeaderDict(TypedDict, total=False):
    name: Required[str]
    value: Required[str]

class HostAlias(Part[HostAliasDict]):
    ip: str
    hostnames: list[str] | None = None

class HostAliasDict(TypedDict, total=False):
    ip: Required[str]
    hostnames: list[str]

class HostIP(Part[HostIPDict]):
    ip: str

class HostIPDict(TypedDict, total=False):
    ip: Required[str]

class HostPathVolumeSource(Part[HostPathVolumeSourceDict]):
    path: str
    type: str | None = None

class HostPathVolumeSourceDict(TypedDict, total=False):
    path: Required[str]
    type: str

class ISCSIPersistentVolumeSource(Part[ISCSIPersistentVolumeSourceDict]):
    target_portal: str
    iqn: str
    lun: int
    iscsi_interface: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    portals: list[str] | None = None
    chap_auth_discovery: bool | None = None
    chap_auth_session: bool | None = None
    secret_ref: SecretReference | None = None
    initiator_name: str | None = None

class ISCSIPersistentVolumeSourceDict(TypedDict, total=False):
    targetPortal: Required[str]
    iqn: Required[str]
    lun: Required[int]
    iscsiInterface: str
    fsType: str
    readOnly: bool
    portals: list[str]
    chapAuthDiscovery: bool
    chapAuthSession: bool
    secretRef: SecretReferenceDict
    initiatorName: str

class ISCSIVolumeSource(Part[ISCSIVolumeSourceDict]):
    target_portal: str
    iqn: str
    lun: int
    iscsi_interface: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    portals: list[str] | None = None
    chap_auth_discovery: bool | None = None
    chap_auth_session: bool | None = None
    secret_ref: LocalObjectReference | None = None
    initiator_name: str | None = None

class ISCSIVolumeSourceDict(TypedDict, total=False):
    targetPortal: Required[str]
    iqn: Required[str]
    lun: Required[int]
    iscsiInterface: str
    fsType: str
    readOnly: bool
    portals: list[str]
    chapAuthDiscovery: bool
    chapAuthSession: bool
    secretRef: LocalObjectReferenceDict
    initiatorName: str

class ImageVolumeSource(Part[ImageVolumeSourceDict]):
    reference: str | None = None
    pull_policy: str | None = None

class ImageVolumeSourceDict(TypedDict, total=False):
    reference: str
    pullPolicy: str

class ImageVolumeStatus(Part[ImageVolumeStatusDict]):
    image_ref: str

class ImageVolumeStatusDict(TypedDict, total=False):
    imageRef: Required[str]

class KeyToPath(Part[KeyToPathDict]):
    key: str
    path: str
    mode: int | None = None

class KeyToPathDict(TypedDict, total=False):
    key: Required[str]
    path: Required[str]
    mode: int

class Lifecycle(Part[LifecycleDict]):
    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None

class LifecycleDict(TypedDict, total=False):
    postStart: LifecycleHandlerDict
    preStop: LifecycleHandlerDict
    stopSignal: str

class LifecycleHandler(Part[LifecycleHandlerDict]):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    sleep: SleepAction | None = None

class LifecycleHandlerDict(TypedDict, total=False):
    exec: ExecActionDict
    httpGet: HTTPGetActionDict
    tcpSocket: TCPSocketActionDict
    sleep: SleepActionDict

class LimitRange(Resource, group="", version="v1", plural="limitranges"):
    """LimitRange of v1."""

    spec: LimitRangeSpecDict = {}

class LimitRangeItem(Part[LimitRangeItemDict]):
    type: str
    max: dict[str, Quantity] | None = None
    min: dict[str, Quantity] | None = None
    default: dict[str, Quantity] | None = None
    default_request: dict[str, Quantity] | None = None
    max_limit_request_ratio: dict[str, Quantity] | None = None

class LimitRangeItemDict(TypedDict, total=False):
    type: Required[str]
    max: dict[str, Quantity]
    min: dict[str, Quantity]
    default: dict[str, Quantity]
    defaultRequest: dict[str, Quantity]
    maxLimitRequestRatio: dict[str, Quantity]

class LimitRangeSpec(Part[LimitRangeSpecDict]):
    limits: list[LimitRangeItem]

class LimitRangeSpecDict(TypedDict, total=False):
    limits: list[LimitRangeItemDict]

class LinuxContainerUser(Part[LinuxContainerUserDict]):
    uid: int
    gid: int
    supplemental_groups: list[int] | None = None

class LinuxContainerUserDict(TypedDict, total=False):
    uid: Required[int]
    gid: Required[int]
    supplementalGroups: list[int]

class LoadBalancerIngress(Part[LoadBalancerIngressDict]):
    ip: str | None = None
    hostname: str | None = None
    ip_mode: str | None = None
    ports: list[PortStatus] | None = None

class LoadBalancerIngressDict(TypedDict, total=False):
    ip: str
    hostname: str
    ipMode: str
    ports: list[PortStatusDict]

class LoadBalancerStatus(Part[LoadBalancerStatusDict]):
    ingress: list[LoadBalancerIngress] | None = None

class LoadBalancerStatusDict(TypedDict, total=False):
    ingress: list[LoadBalancerIngressDict]

class LocalObjectReference(Part[LocalObjectReferenceDict]):
    name: str | None = None

class LocalObjectReferenceDict(TypedDict, total=False):
    name: str

class LocalVolumeSource(Part[LocalVolumeSourceDict]):
    path: str
    fs_type: str | None = None

class LocalVolumeSourceDict(TypedDict, total=False):
    path: Required[str]
    fsType: str

class ModifyVolumeStatus(Part[ModifyVolumeStatusDict]):
    target_volume_attributes_class_name: str | None = None
    status: str

class ModifyVolumeStatusDict(TypedDict, total=False):
    targetVolumeAttributesClassName: str
    status: Required[str]

class NFSVolumeSource(Part[NFSVolumeSourceDict]):
    server: str
    path: str
    read_only: bool | None = None

class NFSVolumeSourceDict(TypedDict, total=False):
    server: Required[str]
    path: Required[str]
    readOnly: bool

class Namespace(Resource, group="", version="v1", plural="namespaces", namespaced=False):
    """Namespace of v1, cluster-scoped."""

    spec: NamespaceSpecDict = {}
    status: NamespaceStatusDict = {}

class NamespaceCondition(Part[NamespaceConditionDict]):
    type: str
    status: str
    last_transition_time: datetime | None = None
    reason: str | None = None
    message: str | None = None

class NamespaceConditionDict(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastTransitionTime: str
    reason: str
    message: str

class NamespaceSpec(Part[NamespaceSpecDict]):
    finalizers: list[str] | None = None

class NamespaceSpecDict(TypedDict, total=False):
    finalizers: list[str]

class NamespaceStatus(Part[NamespaceStatusDict]):
    phase: str | None = None
    conditions: list[NamespaceCondition] | None = None

class NamespaceStatusDict(TypedDict, total=False):
    phase: str
    conditions: list[NamespaceConditionDict]

class Node(Resource, group="", version="v1", plural="nodes", namespaced=False):
    """Node of v1, cluster-scoped."""

    spec: NodeSpecDict = {}
    status: NodeStatusDict = {}

class NodeAddress(Part[NodeAddressDict]):
    type: str
    address: str

class NodeAddressDict(TypedDict, total=False):
    type: Required[str]
    address: Required[str]

class NodeAffinity(Part[NodeAffinityDict]):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] | None = None

class NodeAffinityDict(TypedDict, total=False):
    requiredDuringSchedulingIgnoredDuringExecution: NodeSelectorDict
    preferredDuringSchedulingIgnoredDuringExecution: list[PreferredSchedulingTermDict]

class NodeAllocatableResourceClaimStatus(Part[NodeAllocatableResourceClaimStatusDict]):
    resource_claim_name: str
    containers: list[str] | None = None
    resources: dict[str, Quantity]

class NodeAllocatableResourceClaimStatusDict(TypedDict, total=False):
    resourceClaimName: Required[str]
    containers: list[str]
    resources: Required[dict[str, Quantity]]

class NodeCondition(Part[NodeConditionDict]):
    type: str
    status: str
    last_heartbeat_time: datetime | None = None
    last_transition_time: datetime | None = None
    reason: str | None = None
    message: str | None = None

class NodeConditionDict(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastHeartbeatTime: str
    lastTransitionTime: str
    reason: str
    message: str

class NodeConfigSource(Part[NodeConfigSourceDict]):
    config_map: ConfigMapNodeConfigSource | None = None

class NodeConfigSourceDict(TypedDict, total=False):
    configMap: ConfigMapNodeConfigSourceDict

class NodeConfigStatus(Part[NodeConfigStatusDict]):
    assigned: NodeConfigSource | None = None
    active: NodeConfigSource | None = None
    last_known_good: NodeConfigSource | None = None
    error: str | None = None

class NodeConfigStatusDict(TypedDict, total=False):
    assigned: NodeConfigSourceDict
    active: NodeConfigSourceDict
    lastKnownGood: NodeConfigSourceDict
    error: str

class NodeDaemonEndpoints(Part[NodeDaemonEndpointsDict]):
    kubelet_endpoint: DaemonEndpoint | None = None

class NodeDaemonEndpointsDict(TypedDict, total=False):
    kubeletEndpoint: DaemonEndpointDict

class NodeFeatures(Part[NodeFeaturesDict]):
    supplemental_groups_policy: bool | None = None

class NodeFeaturesDict(TypedDict, total=False):
    supplementalGroupsPolicy: bool

class NodeRuntimeHandler(Part[NodeRuntimeHandlerDict]):
    name: str | None = None
    features: NodeRuntimeHandlerFeatures | None = None

class NodeRuntimeHandlerDict(TypedDict, total=False):
    name: str
    features: NodeRuntimeHandlerFeaturesDict

class NodeRuntimeHandlerFeatures(Part[NodeRuntimeHandlerFeaturesDict]):
    recursive_read_only_mounts: bool | None = None
    user_namespaces: bool | None = None

class NodeRuntimeHandlerFeaturesDict(TypedDict, total=False):
    recursiveReadOnlyMounts: bool
    userNamespaces: bool

class NodeSelector(Part[NodeSelectorDict]):
    node_selector_terms: list[NodeSelectorTerm]

class NodeSelectorDict(TypedDict, total=False):
    nodeSelectorTerms: Required[list[NodeSelectorTermDict]]

class NodeSelectorRequirement(Part[NodeSelectorRequirementDict]):
    key: str
    operator: str
    values: list[str] | None = None

class NodeSelectorRequirementDict(TypedDict, total=False):
    key: Required[str]
    operator: Required[str]
    values: list[str]

class NodeSelectorTerm(Part[NodeSelectorTermDict]):
    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None

class NodeSelectorTermDict(TypedDict, total=False):
    matchExpressions: list[NodeSelectorRequirementDict]
    matchFields: list[NodeSelectorRequirementDict]

class NodeSpec(Part[NodeSpecDict]):
    pod_cidr: str | None = None
    pod_cidrs: list[str] | None = None
    provider_id: str | None = None
    unschedulable: bool | None = None
    taints: list[Taint] | None = None
    config_source: NodeConfigSource | None = None
    external_id: str | None = None

class NodeSpecDict(TypedDict, total=False):
    podCIDR: str
    podCIDRs: list[str]
    providerID: str
    unschedulable: bool
    taints: list[TaintDict]
    configSource: NodeConfigSourceDict
    externalID: str

class NodeStatus(Part[NodeStatusDict]):
    capacity: dict[str, Quantity] | None = None
    allocatable: dict[str, Quantity] | None = None
    phase: str | None = None
    conditions: list[NodeCondition] | None = None
    addresses: list[NodeAddress] | None = None
    daemon_endpoints: NodeDaemonEndpoints | None = None
    node_info: NodeSystemInfo | None = None
    images: list[ContainerImage] | None = None
    volumes_in_use: list[str] | None = None
    volumes_attached: list[AttachedVolume] | None = None
    config: NodeConfigStatus | None = None
    runtime_handlers: list[NodeRuntimeHandler] | None = None
    features: NodeFeatures | None = None
    declared_features: list[str] | None = None

class NodeStatusDict(TypedDict, total=False):
    capacity: dict[str, Quantity]
    allocatable: dict[str, Quantity]
    phase: str
    conditions: list[NodeConditionDict]
    addresses: list[NodeAddressDict]
    daemonEndpoints: NodeDaemonEndpointsDict
    nodeInfo: NodeSystemInfoDict
    images: list[ContainerImageDict]
    volumesInUse: list[str]
    volumesAttached: list[AttachedVolumeDict]
    config: NodeConfigStatusDict
    runtimeHandlers: list[NodeRuntimeHandlerDict]
    features: NodeFeaturesDict
    declaredFeatures: list[str]

class NodeSwapStatus(Part[NodeSwapStatusDict]):
    capacity: int | None = None

class NodeSwapStatusDict(TypedDict, total=False):
    capacity: int

class NodeSystemInfo(Part[NodeSystemInfoDict]):
    machine_id: str
    system_uuid: str
    boot_id: str
    kernel_version: str
    os_image: str
    container_runtime_version: str
    kubelet_version: str
    kube_proxy_version: str
    operating_system: str
    architecture: str
    swap: NodeSwapStatus | None = None

class NodeSystemInfoDict(TypedDict, total=False):
    machineID: Required[str]
    systemUUID: Required[str]
    bootID: Required[str]
    kernelVersion: Required[str]
    osImage: Required[str]
    containerRuntimeVersion: Required[str]
    kubeletVersion: Required[str]
    kubeProxyVersion: Required[str]
    operatingSystem: Required[str]
    architecture: Required[str]
    swap: NodeSwapStatusDict

class ObjectFieldSelector(Part[ObjectFieldSelectorDict]):
    api_version: str | None = None
    field_path: str

class ObjectFieldSelectorDict(TypedDict, total=False):
    apiVersion: str
    fieldPath: Required[str]

class ObjectReference(Part[ObjectReferenceDict]):
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    api_version: str | None = None
    resource_version: str | None = None
    field_path: str | None = None

class ObjectReferenceDict(TypedDict, total=False):
    kind: str
    namespace: str
    name: str
    uid: str
    apiVersion: str
    resourceVersion: str
    fieldPath: str

class PersistentVolume(Resource, group="", version="v1", plural="persistentvolumes", namespaced=False):
    """PersistentVolume of v1, cluster-scoped."""

    spec: PersistentVolumeSpecDict = {}
    status: PersistentVolumeStatusDict = {}

class PersistentVolumeClaim(Resource, group="", version="v1", plural="persistentvolumeclaims"):
    """PersistentVolumeClaim of v1."""

    spec: PersistentVolumeClaimSpecDict = {}
    status: PersistentVolumeClaimStatusDict = {}

class PersistentVolumeClaimCondition(Part[PersistentVolumeClaimConditionDict]):
    type: str
    status: str
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None
    reason: str | None = None
    message: str | None = None

class PersistentVolumeClaimConditionDict(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastProbeTime: str
    lastTransitionTime: str
    reason: str
    message: str

class PersistentVolumeClaimSpec(Part[PersistentVolumeClaimSpecDict]):
    access_modes: list[str] | None = None
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements | None = None
    volume_name: str | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    data_source: TypedLocalObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None
    volume_attributes_class_name: str | None = None

class PersistentVolumeClaimSpecDict(TypedDict, total=False):
    accessModes: list[str]
    selector: LabelSelectorDict
    resources: VolumeResourceRequirementsDict
    volumeName: str
    storageClassName: str
    volumeMode: str
    dataSource: TypedLocalObjectReferenceDict
    dataSourceRef: TypedObjectReferenceDict
    volumeAttributesClassName: str

class PersistentVolumeClaimStatus(Part[PersistentVolumeClaimStatusDict]):
    phase: str | None = None
    access_modes: list[str] | None = None
    capacity: dict[str, Quantity] | None = None
    conditions: list[PersistentVolumeClaimCondition] | None = None
    allocated_resources: dict[str, Quantity] | None = None
    allocated_resource_statuses: dict[str, str] | None = None
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None

class PersistentVolumeClaimStatusDict(TypedDict, total=False):
    phase: str
    accessModes: list[str]
    capacity: dict[str, Quantity]
    conditions: list[PersistentVolumeClaimConditionDict]
    allocatedResources: dict[str, Quantity]
    allocatedResourceStatuses: dict[str, str]
    currentVolumeAttributesClassName: str
    modifyVolumeStatus: ModifyVolumeStatusDict

class PersistentVolumeClaimTemplate(Part[PersistentVolumeClaimTemplateDict]):
    metadata: ObjectMeta | None = None
    spec: PersistentVolumeClaimSpec

class PersistentVolumeClaimTemplateDict(TypedDict, total=False):
    metadata: ObjectMetaDict
    spec: Required[PersistentVolumeClaimSpecDict]

class PersistentVolumeClaimVolumeSource(Part[PersistentVolumeClaimVolumeSourceDict]):
    claim_name: str
    read_only: bool | None = None

class PersistentVolumeClaimVolumeSourceDict(TypedDict, total=False):
    claimName: Required[str]
    readOnly: bool

class PersistentVolumeSpec(Part[PersistentVolumeSpecDict]):
    capacity: dict[str, Quantity] | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    glusterfs: GlusterfsPersistentVolumeSource | None = None
    nfs: NFSVolumeSource | None = None
    rbd: RBDPersistentVolumeSource | None = None
    iscsi: ISCSIPersistentVolumeSource | None = None
    cinder: CinderPersistentVolumeSource | None = None
    cephfs: CephFSPersistentVolumeSource | None = None
    fc: FCVolumeSource | None = None
    flocker: FlockerVolumeSource | None = None
    flex_volume: FlexPersistentVolumeSource | None = None
    azure_file: AzureFilePersistentVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    quobyte: QuobyteVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    photon_persistent_disk: PhotonPersistentDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    scale_io: ScaleIOPersistentVolumeSource | None = None
    local: LocalVolumeSource | None = None
    storageos: StorageOSPersistentVolumeSource | None = None
    csi: CSIPersistentVolumeSource | None = None
    access_modes: list[str] | None = None
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str | None = None
    storage_class_name: str | None = None
    mount_options: list[str] | None = None
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None

class PersistentVolumeSpecDict(TypedDict, total=False):
    capacity: dict[str, Quantity]
    gcePersistentDisk: GCEPersistentDiskVolumeSourceDict
    awsElasticBlockStore: AWSElasticBlockStoreVolumeSourceDict
    hostPath: HostPathVolumeSourceDict
    glusterfs: GlusterfsPersistentVolumeSourceDict
    nfs: NFSVolumeSourceDict
    rbd: RBDPersistentVolumeSourceDict
    iscsi: ISCSIPersistentVolumeSourceDict
    cinder: CinderPersistentVolumeSourceDict
    cephfs: CephFSPersistentVolumeSourceDict
    fc: FCVolumeSourceDict
    flocker: FlockerVolumeSourceDict
    flexVolume: FlexPersistentVolumeSourceDict
    azureFile: AzureFilePersistentVolumeSourceDict
    vsphereVolume: VsphereVirtualDiskVolumeSourceDict
    quobyte: QuobyteVolumeSourceDict
    azureDisk: AzureDiskVolumeSourceDict
    photonPersistentDisk: PhotonPersistentDiskVolumeSourceDict
    portworxVolume: PortworxVolumeSourceDict
    scaleIO: ScaleIOPersistentVolumeSourceDict
    local: LocalVolumeSourceDict
    storageos: StorageOSPersistentVolumeSourceDict
    csi: CSIPersistentVolumeSourceDict
    accessModes: list[str]
    claimRef: ObjectReferenceDict
    persistentVolumeReclaimPolicy: str
    storageClassName: str
    mountOptions: list[str]
    volumeMode: str
    nodeAffinity: VolumeNodeAffinityDict
    volumeAttributesClassName: str

class PersistentVolumeStatus(Part[PersistentVolumeStatusDict]):
    phase: str | None = None
    message: str | None = None
    reason: str | None = None
    last_phase_transition_time: datetime | None = None

class PersistentVolumeStatusDict(TypedDict, total=False):
    phase: str
    message: str
    reason: str
    lastPhaseTransitionTime: str

class PhotonPersistentDiskVolumeSource(Part[PhotonPersistentDiskVolumeSourceDict]):
    pd_id: str
    fs_type: str | None = None

class PhotonPersistentDiskVolumeSourceDict(TypedDict, total=False):
    pdID: Required[str]
    fsType: str

class Pod(Resource, group="", version="v1", plural="pods"):
    """Pod of v1."""

    spec: PodSpecDict = {}
    status: PodStatusDict = {}

class PodAffinity(Part[PodAffinityDict]):
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None

class PodAffinityDict(TypedDict, total=False):
    requiredDuringSchedulingIgnoredDuringExecution: list[PodAffinityTermDict]
    preferredDuringSchedulingIgnoredDuringExecution: list[WeightedPodAffinityTermDict]

class PodAffinityTerm(Part[PodAffinityTermDict]):
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    topology_key: str
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None

class PodAffinityTermDict(TypedDict, total=False):
    labelSelector: LabelSelectorDict
    namespaces: list[str]
    topologyKey: Required[str]
    namespaceSelector: LabelSelectorDict
    matchLabelKeys: list[str]
    mismatchLabelKeys: list[str]

class PodAntiAffinity(Part[PodAntiAffinityDict]):
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None

class PodAntiAffinityDict(TypedDict, total=False):
    requiredDuringSchedulingIgnoredDuringExecution: list[PodAffinityTermDict]
    preferredDuringSchedulingIgnoredDuringExecution: list[WeightedPodAffinityTermDict]

class PodCertificateProjection(Part[PodCertificateProjectionDict]):
    signer_name: str
    key_type: str
    max_expiration_seconds: int | None = None
    credential_bundle_path: str | None = None
    key_path: str | None = None
    certificate_chain_path: str | None = None
    user_annotations: dict[str, str] | None = None

class PodCertificateProjectionDict(TypedDict, total=False):
    signerName: Required[str]
    keyType: Required[str]
    maxExpirationSeconds: int
    credentialBundlePath: str
    keyPath: str
    certificateChainPath: str
    userAnnotations: dict[str, str]

class PodCondition(Part[PodConditionDict]):
    type: str
    observed_generation: int | None = None
    status: str
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None
    reason: str | None = None
    message: str | None = None

class PodConditionDict(TypedDict, total=False):
    type: Required[str]
    observedGeneration: int
    status: Required[str]
    lastProbeTime: str
    lastTransitionTime: str
    reason: str
    message: str

class PodDNSConfig(Part[PodDNSConfigDict]):
    nameservers: list[str] | None = None
    searches: list[str] | None = None
    options: list[PodDNSConfigOption] | None = None

class PodDNSConfigDict(TypedDict, total=False):
    nameservers: list[str]
    searches: list[str]
    options: list[PodDNSConfigOptionDict]

class PodDNSConfigOption(Part[PodDNSConfigOptionDict]):
    name: str | None = None
    value: str | None = None

class PodDNSConfigOptionDict(TypedDict, total=False):
    name: str
    value: str

class PodExtendedResourceClaimStatus(Part[PodExtendedResourceClaimStatusDict]):
    request_mappings: list[ContainerExtendedResourceRequest]
    resource_claim_name: str

class PodExtendedResourceClaimStatusDict(TypedDict, total=False):
    requestMappings: Required[list[ContainerExtendedResourceRequestDict]]
    resourceClaimName: Required[str]

class PodIP(Part[PodIPDict]):
    ip: str

class PodIPDict(TypedDict, total=False):
    ip: Required[str]

class PodOS(Part[PodOSDict]):
    name: str

class PodOSDict(TypedDict, total=False):
    name: Required[str]

class PodReadinessGate(Part[PodReadinessGateDict]):
    condition_type: str

class PodReadinessGateDict(TypedDict, total=False):
    conditionType: Required[str]

class PodResourceClaim(Part[PodResourceClaimDict]):
    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None

class PodResourceClaimDict(TypedDict, total=False):
    name: Required[str]
    resourceClaimName: str
    resourceClaimTemplateName: str

class PodResourceClaimStatus(Part[PodResourceClaimStatusDict]):
    name: str
    resource_claim_name: str | None = None

class PodResourceClaimStatusDict(TypedDict, total=False):
    name: Required[str]
    resourceClaimName: str

class PodSchedulingGate(Part[PodSchedulingGateDict]):
    name: str

class PodSchedulingGateDict(TypedDict, total=False):
    name: Required[str]

class PodSchedulingGroup(Part[PodSchedulingGroupDict]):
    pod_group_name: str | None = None

class PodSchedulingGroupDict(TypedDict, total=False):
    podGroupName: str

class PodSecurityContext(Part[PodSecurityContextDict]):
    se_linux_options: SELinuxOptions | None = None
    windows_options: WindowsSecurityContextOptions | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: list[int] | None = None
    supplemental_groups_policy: str | None = None
    fs_group: int | None = None
    sysctls: list[Sysctl] | None = None
    fs_group_change_policy: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    se_linux_change_policy: str | None = None

class PodSecurityContextDict(TypedDict, total=False):
    seLinuxOptions: SELinuxOptionsDict
    windowsOptions: WindowsSecurityContextOptionsDict
    runAsUser: int
    runAsGroup: int
    runAsNonRoot: bool
    supplementalGroups: list[int]
    supplementalGroupsPolicy: str
    fsGroup: int
    sysctls: list[SysctlDict]
    fsGroupChangePolicy: str
    seccompProfile: SeccompProfileDict
    appArmorProfile: AppArmorProfileDict
    seLinuxChangePolicy: str

class PodSpec(Part[PodSpecDict]):
    volumes: list[Volume] | None = None
    init_containers: list[Container] | None = None
    containers: list[Container]
    ephemeral_containers: list[EphemeralContainer] | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    dns_policy: str | None = None
    node_selector: dict[str, str] | None = None
    service_account_name: str | None = None
    service_account: str | None = None
    automount_service_account_token: bool | None = None
    node_name: str | None = None
    host_network: bool | None = None
    host_pid: bool | None = None
    host_ipc: bool | None = None
    share_process_namespace: bool | None = None
    security_context: PodSecurityContext | None = None
    image_pull_secrets: list[LocalObjectReference] | None = None
    hostname: str | None = None
    subdomain: str | None = None
    affinity: Affinity | None = None
    scheduler_name: str | None = None
    tolerations: list[Toleration] | None = None
    host_aliases: list[HostAlias] | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    dns_config: PodDNSConfig | None = None
    readiness_gates: list[PodReadinessGate] | None = None
    runtime_class_name: str | None = None
    enable_service_links: bool | None = None
    preemption_policy: str | None = None
    overhead: dict[str, Quantity] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    set_hostname_as_fqdn: bool | None = None
    os: PodOS | None = None
    host_users: bool | None = None
    scheduling_gates: list[PodSchedulingGate] | None = None
    resource_claims: list[PodResourceClaim] | None = None
    resources: ResourceRequirements | None = None
    hostname_override: str | None = None
    scheduling_group: PodSchedulingGroup | None = None

class PodSpecDict(TypedDict, total=False):
    volumes: list[VolumeDict]
    initContainers: list[ContainerDict]
    containers: list[ContainerDict]
    ephemeralContainers: list[EphemeralContainerDict]
    restartPolicy: str
    terminationGracePeriodSeconds: int
    activeDeadlineSeconds: int
    dnsPolicy: str
    nodeSelector: dict[str, str]
    serviceAccountName: str
    serviceAccount: str
    automountServiceAccountToken: bool
    nodeName: str
    hostNetwork: bool
    hostPID: bool
    hostIPC: bool
    shareProcessNamespace: bool
    securityContext: PodSecurityContextDict
    imagePullSecrets: list[LocalObjectReferenceDict]
    hostname: str
    subdomain: str
    affinity: AffinityDict
    schedulerName: str
    tolerations: list[TolerationDict]
    hostAliases: list[HostAliasDict]
    priorityClassName: str
    priority: int
    dnsConfig: PodDNSConfigDict
    readinessGates: list[PodReadinessGateDict]
    runtimeClassName: str
    enableServiceLinks: bool
    preemptionPolicy: str
    overhead: dict[str, Quantity]
    topologySpreadConstraints: list[TopologySpreadConstraintDict]
    setHostnameAsFQDN: bool
    os: PodOSDict
    hostUsers: bool
    schedulingGates: list[PodSchedulingGateDict]
    resourceClaims: list[PodResourceClaimDict]
    resources: ResourceRequirementsDict
    hostnameOverride: str
    schedulingGroup: PodSchedulingGroupDict

class PodStatus(Part[PodStatusDict]):
    observed_generation: int | None = None
    phase: str | None = None
    conditions: list[PodCondition] | None = None
    message: str | None = None
    reason: str | None = None
    nominated_node_name: str | None = None
    host_ip: str | None = None
    host_ips: list[HostIP] | None = None
    pod_ip: str | None = None
    pod_ips: list[PodIP] | None = None
    start_time: datetime | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    container_statuses: list[ContainerStatus] | None = None
    qos_class: str | None = None
    ephemeral_container_statuses: list[ContainerStatus] | None = None
    resize: str | None = None
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    allocated_resources: dict[str, Quantity] | None = None
    resources: ResourceRequirements | None = None
    node_allocatable_resource_claim_statuses: list[NodeAllocatableResourceClaimStatus] | None = None

class PodStatusDict(TypedDict, total=False):
    observedGeneration: int
    phase: str
    conditions: list[PodConditionDict]
    message: str
    reason: str
    nominatedNodeName: str
    hostIP: str
    hostIPs: list[HostIPDict]
    podIP: str
    podIPs: list[PodIPDict]
    startTime: str
    initContainerStatuses: list[ContainerStatusDict]
    containerStatuses: list[ContainerStatusDict]
    qosClass: str
    ephemeralContainerStatuses: list[ContainerStatusDict]
    resize: str
    resourceClaimStatuses: list[PodResourceClaimStatusDict]
    extendedResourceClaimStatus: PodExtendedResourceClaimStatusDict
    allocatedResources: dict[str, Quantity]
    resources: ResourceRequirementsDict
    nodeAllocatableResourceClaimStatuses: list[NodeAllocatableResourceClaimStatusDict]

class PodTemplate(Resource, group="", version="v1", plural="podtemplates"):
    """PodTemplate of v1."""

    template: PodTemplateSpecDict | None = None

class PodTemplateSpec(Part[PodTemplateSpecDict]):
    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None

class PodTemplateSpecDict(TypedDict, total=False):
    metadata: ObjectMetaDict
    spec: PodSpecDict

class PortStatus(Part[PortStatusDict]):
    port: int
    protocol: str
    error: str | None = None

class PortStatusDict(TypedDict, total=False):
    port: Required[int]
    protocol: Required[str]
    error: str

class PortworxVolumeSource(Part[PortworxVolumeSourceDict]):
    volume_id: str
    fs_type: str | None = None
    read_only: bool | None = None

class PortworxVolumeSourceDict(TypedDict, total=False):
    volumeID: Required[str]
    fsType: str
    readOnly: bool

class PreferredSchedulingTerm(Part[PreferredSchedulingTermDict]):
    weight: int
    preference: NodeSelectorTerm

class PreferredSchedulingTermDict(TypedDict, total=False):
    weight: Required[int]
    preference: Required[NodeSelectorTermDict]

class Probe(Part[ProbeDict]):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None
    initial_delay_seconds: int | None = None
    timeout_seconds: int | None = None
    period_seconds: int | None = None
    success_threshold: int | None = None
    failure_threshold: int | None = None
    termination_grace_period_seconds: int | None = None

class ProbeDict(TypedDict, total=False):
    exec: ExecActionDict
    httpGet: HTTPGetActionDict
    tcpSocket: TCPSocketActionDict
    grpc: GRPCActionDict
    initialDelaySeconds: int
    timeoutSeconds: int
    periodSeconds: int
    successThreshold: int
    failureThreshold: int
    terminationGracePeriodSeconds: int

class ProjectedVolumeSource(Part[ProjectedVolumeSourceDict]):
    sources: list[VolumeProjection] | None = None
    default_mode: int | None = None

class ProjectedVolumeSourceDict(TypedDict, total=False):
    sources: list[VolumeProjectionDict]
    defaultMode: int

class QuobyteVolumeSource(Part[QuobyteVolumeSourceDict]):
    registry: str
    volume: str
    read_only: bool | None = None
    user: str | None = None
    group: str | None = None
    tenant: str | None = None

class QuobyteVolumeSourceDict(TypedDict, total=False):
    registry: Required[str]
    volume: Required[str]
    readOnly: bool
    user: str
    group: str
    tenant: str

class RBDPersistentVolumeSource(Part[RBDPersistentVolumeSourceDict]):
    monitors: list[str]
    image: str
    fs_type: str | None = None
    pool: str | None = None
    user: str | None = None
    keyring: str | None = None
    secret_ref: SecretReference | None = None
    read_only: bool | None = None

class RBDPersistentVolumeSourceDict(TypedDict, total=False):
    monitors: Required[list[str]]
    image: Required[str]
    fsType: str
    pool: str
    user: str
    keyring: str
    secretRef: SecretReferenceDict
    readOnly: bool

class RBDVolumeSource(Part[RBDVolumeSourceDict]):
    monitors: list[str]
    image: str
    fs_type: str | None = None
    pool: str | None = None
    user: str | None = None
    keyring: str | None = None
    secret_ref: LocalObjectReference | None = None
    read_only: bool | None = None

class RBDVolumeSourceDict(TypedDict, total=False):
    monitors: Required[list[str]]
    image: Required[str]
    fsType: str
    pool: str
    user: str
    keyring: str
    secretRef: LocalObjectReferenceDict
    readOnly: bool

class ReplicationController(Resource, group="", version="v1", plural="replicationcontrollers"):
    """ReplicationController of v1."""

    spec: ReplicationControllerSpecDict = {}
    status: ReplicationControllerStatusDict = {}

class ReplicationControllerCondition(Part[ReplicationControllerConditionDict]):
    type: str
    status: str
    last_transition_time: datetime | None = None
    reason: str | None = None
    message: str | None = None

class ReplicationControllerConditionDict(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastTransitionTime: str
    reason: str
    message: str

class ReplicationControllerSpec(Part[ReplicationControllerSpecDict]):
    replicas: int | None = None
    min_ready_seconds: int | None = None
    selector: dict[str, str] | None = None
    template: PodTemplateSpec | None = None

class ReplicationControllerSpecDict(TypedDict, total=False):
    replicas: int
    minReadySeconds: int
    selector: dict[str, str]
    template: PodTemplateSpecDict

class ReplicationControllerStatus(Part[ReplicationControllerStatusDict]):
    replicas: int
    fully_labeled_replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None
    observed_generation: int | None = None
    conditions: list[ReplicationControllerCondition] | None = None

class ReplicationControllerStatusDict(TypedDict, total=False):
    replicas: int
    fullyLabeledReplicas: int
    readyReplicas: int
    availableReplicas: int
    observedGeneration: int
    conditions: list[ReplicationControllerConditionDict]

class ResourceClaim(Part[ResourceClaimDict]):
    name: str
    request: str | None = None

class ResourceClaimDict(TypedDict, total=False):
    name: Required[str]
    request: str

class ResourceFieldSelector(Part[ResourceFieldSelectorDict]):
    container_name: str | None = None
    resource: str
    divisor: Quantity | None = None

class ResourceFieldSelectorDict(TypedDict, total=False):
    containerName: str
    resource: Required[str]
    divisor: Quantity

class ResourceHealth(Part[ResourceHealthDict]):
    resource_id: str
    health: str | None = None
    message: str | None = None

class ResourceHealthDict(TypedDict, total=False):
    resourceID: Required[str]
    health: str
    message: str

class ResourceQuota(Resource, group="", version="v1", plural="resourcequotas"):
    """ResourceQuota of v1."""

    spec: ResourceQuotaSpecDict = {}
    status: ResourceQuotaStatusDict = {}

class ResourceQuotaSpec(Part[ResourceQuotaSpecDict]):
    hard: dict[str, Quantity] | None = None
    scopes: list[str] | None = None
    scope_selector: ScopeSelector | None = None

class ResourceQuotaSpecDict(TypedDict, total=False):
    hard: dict[str, Quantity]
    scopes: list[str]
    scopeSelector: ScopeSelectorDict

class ResourceQuotaStatus(Part[ResourceQuotaStatusDict]):
    hard: dict[str, Quantity] | None = None
    used: dict[str, Quantity] | None = None

class ResourceQuotaStatusDict(TypedDict, total=False):
    hard: dict[str, Quantity]
    used: dict[str, Quantity]

class ResourceRequirements(Part[ResourceRequirementsDict]):
    limits: dict[str, Quantity] | None = None
    requests: dict[str, Quantity] | None = None
    claims: list[ResourceClaim] | None = None

class ResourceRequirementsDict(TypedDict, total=False):
    limits: dict[str, Quantity]
    requests: dict[str, Quantity]
    claims: list[ResourceClaimDict]

class ResourceStatus(Part[ResourceStatusDict]):
    name: str
    resources: list[ResourceHealth] | None = None

class ResourceStatusDict(TypedDict, total=False):
    name: Required[str]
    resources: list[ResourceHealthDict]

class SELinuxOptions(Part[SELinuxOptionsDict]):
    user: str | None = None
    role: str | None = None
    type: str | None = None
    level: str | None = None

class SELinuxOptionsDict(TypedDict, total=False):
    user: str
    role: str
    type: str
    level: str

class ScaleIOPersistentVolumeSource(Part[ScaleIOPersistentVolumeSourceDict]):
    gateway: str
    system: str
    secret_ref: SecretReference
    ssl_enabled: bool | None = None
    protection_domain: str | None = None
    storage_pool: str | None = None
    storage_mode: str | None = None
    volume_name: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None

class ScaleIOPersistentVolumeSourceDict(TypedDict, total=False):
    gateway: Required[str]
    system: Required[str]
    secretRef: Required[SecretReferenceDict]
    sslEnabled: bool
    protectionDomain: str
    storagePool: str
    storageMode: str
    volumeName: str
    fsType: str
    readOnly: bool

class ScaleIOVolumeSource(Part[ScaleIOVolumeSourceDict]):
    gateway: str
    system: str
    secret_ref: LocalObjectReference
    ssl_enabled: bool | None = None
    protection_domain: str | None = None
    storage_pool: str | None = None
    storage_mode: str | None = None
    volume_name: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None

class ScaleIOVolumeSourceDict(TypedDict, total=False):
    gateway: Required[str]
    system: Required[str]
    secretRef: Required[LocalObjectReferenceDict]
    sslEnabled: bool
    protectionDomain: str
    storagePool: str
    storageMode: str
    volumeName: str
    fsType: str
    readOnly: bool

class ScopeSelector(Part[ScopeSelectorDict]):
    match_expressions: list[ScopedResourceSelectorRequirement] | None = None

class ScopeSelectorDict(TypedDict, total=False):
    matchExpressions: list[ScopedResourceSelectorRequirementDict]

class ScopedResourceSelectorRequirement(Part[ScopedResourceSelectorRequirementDict]):
    scope_name: str
    operator: str
    values: list[str] | None = None

class ScopedResourceSelectorRequirementDict(TypedDict, total=False):
    scopeName: Required[str]
    operator: Required[str]
    values: list[str]

class SeccompProfile(Part[SeccompProfileDict]):
    type: str
    localhost_profile: str | None = None

class SeccompProfileDict(TypedDict, total=False):
    type: Required[str]
    localhostProfile: str

class Secret(SecretMethods, Resource, group="", version="v1", plural="secrets"):
    """Secret of v1."""

    immutable: bool | None = None
    data: dict[str, str | None] | None = None
    string_data: dict[str, str] | None = None
    type: str | None = None

class SecretEnvSource(Part[SecretEnvSourceDict]):
    name: str | None = None
    optional: bool | None = None

class SecretEnvSourceDict(TypedDict, total=False):
    name: str
    optional: bool

class SecretKeySelector(Part[SecretKeySelectorDict]):
    name: str | None = None
    key: str
    optional: bool | None = None

class SecretKeySelectorDict(TypedDict, total=False):
    name: str
    key: Required[str]
    optional: bool

class SecretProjection(Part[SecretProjectionDict]):
    name: str | None = None
    items: list[KeyToPath] | None = None
    optional: bool | None = None

class SecretProjectionDict(TypedDict, total=False):
    name: str
    items: list[KeyToPathDict]
    optional: bool

class SecretReference(Part[SecretReferenceDict]):
    name: str | None = None
    namespace: str | None = None

class SecretReferenceDict(TypedDict, total=False):
    name: str
    namespace: str

class SecretVolumeSource(Part[SecretVolumeSourceDict]):
    secret_name: str | None = None
    items: list[KeyToPath] | None = None
    default_mode: int | None = None
    optional: bool | None = None

class SecretVolumeSourceDict(TypedDict, total=False):
    secretName: str
    items: list[KeyToPathDict]
    defaultMode: int
    optional: bool

class SecurityContext(Part[SecurityContextDict]):
    capabilities: Capabilities | None = None
    privileged: bool | None = None
    se_linux_options: SELinuxOptions | None = None
    windows_options: WindowsSecurityContextOptions | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    read_only_root_filesystem: bool | None = None
    allow_privilege_escalation: bool | None = None
    proc_mount: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None

class SecurityContextDict(TypedDict, total=False):
    capabilities: CapabilitiesDict
    privileged: bool
    seLinuxOptions: SELinuxOptionsDict
    windowsOptions: WindowsSecurityContextOptionsDict
    runAsUser: int
    runAsGroup: int
    runAsNonRoot: bool
    readOnlyRootFilesystem: bool
    allowPrivilegeEscalation: bool
    procMount: str
    seccompProfile: SeccompProfileDict
    appArmorProfile: AppArmorProfileDict

class Service(Resource, group="", version="v1", plural="services"):
    """Service of v1."""

    spec: ServiceSpecDict = {}
    status: ServiceStatusDict = {}

class ServiceAccount(Resource, group="", version="v1", plural="serviceaccounts"):
    """ServiceAccount of v1."""

    secrets: list[ObjectReferenceDict] | None = None
    image_pull_secrets: list[LocalObjectReferenceDict] | None = None
    automount_service_account_token: bool | None = None

class ServiceAccountTokenProjection(Part[ServiceAccountTokenProjectionDict]):
    audience: str | None = None
    expiration_seconds: int | None = None
    path: str

class ServiceAccountTokenProjectionDict(TypedDict, total=False):
    audience: str
    expirationSeconds: int
    path: Required[str]

class ServicePort(Part[ServicePortDict]):
    name: str | None = None
    protocol: str | None = None
    app_protocol: str | None = None
    port: int
    target_port: IntOrString | None = None
    node_port: int | None = None

class ServicePortDict(TypedDict, total=False):
    name: str
    protocol: str
    appProtocol: str
    port: Required[int]
    targetPort: IntOrString
    nodePort: int

class ServiceSpec(Part[ServiceSpecDict]):
    ports: list[ServicePort] | None = None
    selector: dict[str, str] | None = None
    cluster_ip: str | None = None
    cluster_ips: list[str] | None = None
    type: str | None = None
    external_ips: list[str] | None = None
    session_affinity: str | None = None
    load_balancer_ip: str | None = None
    load_balancer_source_ranges: list[str] | None = None
    external_name: str | None = None
    external_traffic_policy: str | None = None
    health_check_node_port: int | None = None
    publish_not_ready_addresses: bool | None = None
    session_affinity_config: SessionAffinityConfig | None = None
    ip_families: list[str] | None = None
    ip_family_policy: str | None = None
    allocate_load_balancer_node_ports: bool | None = None
    load_balancer_class: str | None = None
    internal_traffic_policy: str | None = None
    traffic_distribution: str | None = None

class ServiceSpecDict(TypedDict, total=False):
    ports: list[ServicePortDict]
    selector: dict[str, str]
    clusterIP: str
    clusterIPs: list[str]
    type: str
    externalIPs: list[str]
    sessionAffinity: str
    loadBalancerIP: str
    loadBalancerSourceRanges: list[str]
    externalName: str
    externalTrafficPolicy: str
    healthCheckNodePort: int
    publishNotReadyAddresses: bool
    sessionAffinityConfig: SessionAffinityConfigDict
    ipFamilies: list[str]
    ipFamilyPolicy: str
    allocateLoadBalancerNodePorts: bool
    loadBalancerClass: str
    internalTrafficPolicy: str
    trafficDistribution: str

class ServiceStatus(Part[ServiceStatusDict]):
    load_balancer: LoadBalancerStatus | None = None
    conditions: list[Condition] | None = None

class ServiceStatusDict(TypedDict, total=False):
    loadBalancer: LoadBalancerStatusDict
    conditions: list[ConditionDict]

class SessionAffinityConfig(Part[SessionAffinityConfigDict]):
    client_ip: ClientIPConfig | None = None

class SessionAffinityConfigDict(TypedDict, total=False):
    clientIP: ClientIPConfigDict

class SleepAction(Part[SleepActionDict]):
    seconds: int

class SleepActionDict(TypedDict, total=False):
    seconds: Required[int]

class StorageOSPersistentVolumeSource(Part[StorageOSPersistentVolumeSourceDict]):
    volume_name: str | None = None
    volume_namespace: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: ObjectReference | None = None

class StorageOSPersistentVolumeSourceDict(TypedDict, total=False):
    volumeName: str
    volumeNamespace: str
    fsType: str
    readOnly: bool
    secretRef: ObjectReferenceDict

class StorageOSVolumeSource(Part[StorageOSVolumeSourceDict]):
    volume_name: str | None = None
    volume_namespace: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None

class StorageOSVolumeSourceDict(TypedDict, total=False):
    volumeName: str
    volumeNamespace: str
    fsType: str
    readOnly: bool
    secretRef: LocalObjectReferenceDict

class Sysctl(Part[SysctlDict]):
    name: str
    value: str

class SysctlDict(TypedDict, total=False):
    name: Required[str]
    value: Required[str]

class TCPSocketAction(Part[TCPSocketActionDict]):
    port: IntOrString
    host: str | None = None

class TCPSocketActionDict(TypedDict, total=False):
    port: Required[IntOrString]
    host: str

class Taint(Part[TaintDict]):
    key: str
    value: str | None = None
    effect: str
    time_added: datetime | None = None

class TaintDict(TypedDict, total=False):
    key: Required[str]
    value: str
    effect: Required[str]
    timeAdded: str

class Toleration(Part[TolerationDict]):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None

class TolerationDict(TypedDict, total=False):
    key: str
    operator: str
    value: str
    effect: str
    tolerationSeconds: int

class TopologySelectorLabelRequirement(Part[TopologySelectorLabelRequirementDict]):
    key: str
    values: list[str]

class TopologySelectorLabelRequirementDict(TypedDict, total=False):
    key: Required[str]
    values: Required[list[str]]

class TopologySelectorTerm(Part[TopologySelectorTermDict]):
    match_label_expressions: list[TopologySelectorLabelRequirement] | None = None

class TopologySelectorTermDict(TypedDict, total=False):
    matchLabelExpressions: list[TopologySelectorLabelRequirementDict]

class TopologySpreadConstraint(Part[TopologySpreadConstraintDict]):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None

class TopologySpreadConstraintDict(TypedDict, total=False):
    maxSkew: Required[int]
    topologyKey: Required[str]
    whenUnsatisfiable: Required[str]
    labelSelector: LabelSelectorDict
    minDomains: int
    nodeAffinityPolicy: str
    nodeTaintsPolicy: str
    matchLabelKeys: list[str]

class TypedLocalObjectReference(Part[TypedLocalObjectReferenceDict]):
    api_group: str | None = None
    kind: str
    name: str

class TypedLocalObjectReferenceDict(TypedDict, total=False):
    apiGroup: str
    kind: Required[str]
    name: Required[str]

class TypedObjectReference(Part[TypedObjectReferenceDict]):
    api_group: str | None = None
    kind: str
    name: str
    namespace: str | None = None

class TypedObjectReferenceDict(TypedDict, total=False):
    apiGroup: str
    kind: Required[str]
    name: Required[str]
    namespace: str

class Volume(Part[VolumeDict]):
    name: str
    host_path: HostPathVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    git_repo: GitRepoVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    nfs: NFSVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    glusterfs: GlusterfsVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    flex_volume: FlexVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    cephfs: CephFSVolumeSource | None = None
    flocker: FlockerVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = None
    fc: FCVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    quobyte: QuobyteVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    photon_persistent_disk: PhotonPersistentDiskVolumeSource | None = None
    projected: ProjectedVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    scale_io: ScaleIOVolumeSource | None = None
    storageos: StorageOSVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    image: ImageVolumeSource | None = None

class VolumeDict(TypedDict, total=False):
    name: Required[str]
    hostPath: HostPathVolumeSourceDict
    emptyDir: EmptyDirVolumeSourceDict
    gcePersistentDisk: GCEPersistentDiskVolumeSourceDict
    awsElasticBlockStore: AWSElasticBlockStoreVolumeSourceDict
    gitRepo: GitRepoVolumeSourceDict
    secret: SecretVolumeSourceDict
    nfs: NFSVolumeSourceDict
    iscsi: ISCSIVolumeSourceDict
    glusterfs: GlusterfsVolumeSourceDict
    persistentVolumeClaim: PersistentVolumeClaimVolumeSourceDict
    rbd: RBDVolumeSourceDict
    flexVolume: FlexVolumeSourceDict
    cinder: CinderVolumeSourceDict
    cephfs: CephFSVolumeSourceDict
    flocker: FlockerVolumeSourceDict
    downwardAPI: DownwardAPIVolumeSourceDict
    fc: FCVolumeSourceDict
    azureFile: AzureFileVolumeSourceDict
    configMap: ConfigMapVolumeSourceDict
    vsphereVolume: VsphereVirtualDiskVolumeSourceDict
    quobyte: QuobyteVolumeSourceDict
    azureDisk: AzureDiskVolumeSourceDict
    photonPersistentDisk: PhotonPersistentDiskVolumeSourceDict
    projected: ProjectedVolumeSourceDict
    portworxVolume: PortworxVolumeSourceDict
    scaleIO: ScaleIOVolumeSourceDict
    storageos: StorageOSVolumeSourceDict
    csi: CSIVolumeSourceDict
    ephemeral: EphemeralVolumeSourceDict
    image: ImageVolumeSourceDict

class VolumeDevice(Part[VolumeDeviceDict]):
    name: str
    device_path: str

class VolumeDeviceDict(TypedDict, total=False):
    name: Required[str]
    devicePath: Required[str]

class VolumeMount(Part[VolumeMountDict]):
    name: str
    read_only: bool | None = None
    recursive_read_only: str | None = None
    mount_path: str
    sub_path: str | None = None
    mount_propagation: str | None = None
    sub_path_expr: str | None = None

class VolumeMountDict(TypedDict, total=False):
    name: Required[str]
    readOnly: bool
    recursiveReadOnly: str
    mountPath: Required[str]
    subPath: str
    mountPropagation: str
    subPathExpr: str

class VolumeMountStatus(Part[VolumeMountStatusDict]):
    name: str
    mount_path: str
    read_only: bool | None = None
    recursive_read_only: str | None = None
    volume_status: VolumeStatus | None = None

class VolumeMountStatusDict(TypedDict, total=False):
    name: Required[str]
    mountPath: Required[str]
    readOnly: bool
    recursiveReadOnly: str
    volumeStatus: VolumeStatusDict

class VolumeNodeAffinity(Part[VolumeNodeAffinityDict]):
    required_: NodeSelector | None = None

class VolumeNodeAffinityDict(TypedDict, total=False):
    required: NodeSelectorDict

class VolumeProjection(Part[VolumeProjectionDict]):
    secret: SecretProjection | None = None
    downward_api: DownwardAPIProjection | None = None
    config_map: ConfigMapProjection | None = None
    service_account_token: ServiceAccountTokenProjection | None = None
    cluster_trust_bundle: ClusterTrustBundleProjection | None = None
    pod_certificate: PodCertificateProjection | None = None

class VolumeProjectionDict(TypedDict, total=False):
    secret: SecretProjectionDict
    downwardAPI: DownwardAPIProjectionDict
    configMap: ConfigMapProjectionDict
    serviceAccountToken: ServiceAccountTokenProjectionDict
    clusterTrustBundle: ClusterTrustBundleProjectionDict
    podCertificate: PodCertificateProjectionDict

class VolumeResourceRequirements(Part[VolumeResourceRequirementsDict]):
    limits: dict[str, Quantity] | None = None
    requests: dict[str, Quantity] | None = None

class VolumeResourceRequirementsDict(TypedDict, total=False):
    limits: dict[str, Quantity]
    requests: dict[str, Quantity]

class VolumeStatus(Part[VolumeStatusDict]):
    image: ImageVolumeStatus | None = None

class VolumeStatusDict(TypedDict, total=False):
    image: ImageVolumeStatusDict

class VsphereVirtualDiskVolumeSource(Part[VsphereVirtualDiskVolumeSourceDict]):
    volume_path: str
    fs_type: str | None = None
    storage_policy_name: str | None = None
    storage_policy_id: str | None = None

class VsphereVirtualDiskVolumeSourceDict(TypedDict, total=False):
    volumePath: Required[str]
    fsType: str
    storagePolicyName: str
    storagePolicyID: str

class WeightedPodAffinityTerm(Part[WeightedPodAffinityTermDict]):
    weight: int
    pod_affinity_term: PodAffinityTerm

class WeightedPodAffinityTermDict(TypedDict, total=False):
    weight: Required[int]
    podAffinityTerm: Required[PodAffinityTermDict]

class WindowsSecurityContextOptions(Part[WindowsSecurityContextOptionsDict]):
    gmsa_credential_spec_name: str | None = None
    gmsa_credential_spec: str | None = None
    run_as_user_name: str | None = None
    host_process: bool | None = None

class WindowsSecurityContextOptionsDict(TypedDict, total=False):
    gmsaCredentialSpecName: str
    gmsaCredentialSpec: str
    runAsUserName: str
    hostProcess: bool
