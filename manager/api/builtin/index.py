# Made by scripts/generate-api-models; do not edit.
"""The names that each module has."""

from __future__ import annotations

NAMES = {
    "meta_v1_selector": "LabelSelector LabelSelectorRequirement",
    "core_v1_scheduling": (
        "Affinity NodeAffinity NodeSelector NodeSelectorRequirement NodeSelectorTerm PodAffinity "
        "PodAffinityTerm PodAntiAffinity PreferredSchedulingTerm Toleration TopologySpreadConstraint "
        "WeightedPodAffinityTerm"
    ),
    "core_v1_reference": "LocalObjectReference ObjectReference SecretReference TypedLocalObjectReference",
    "core_v1_container": (
        "AppArmorProfile Capabilities ConfigMapEnvSource ConfigMapKeySelector Container ContainerPort "
        "ContainerResizePolicy ContainerRestartRule ContainerRestartRuleOnExitCodes EnvFromSource EnvVar "
        "EnvVarSource EphemeralContainer ExecAction FileKeySelector GRPCAction HTTPGetAction HTTPHeader "
        "Lifecycle LifecycleHandler ObjectFieldSelector Probe ResourceClaim ResourceFieldSelector "
        "ResourceRequirements SELinuxOptions SeccompProfile SecretEnvSource SecretKeySelector "
        "SecurityContext SleepAction TCPSocketAction VolumeDevice VolumeMount WindowsSecurityContextOptions"
    ),
    "core_v1_claim": (
        "ModifyVolumeStatus PersistentVolumeClaim PersistentVolumeClaimCondition PersistentVolumeClaimSpec "
        "PersistentVolumeClaimStatus TypedObjectReference VolumeResourceRequirements"
    ),
    "core_v1_volume": (
        "AWSElasticBlockStoreVolumeSource AzureDiskVolumeSource AzureFileVolumeSource CSIVolumeSource "
        "CephFSVolumeSource CinderVolumeSource ClusterTrustBundleProjection ConfigMapProjection "
        "ConfigMapVolumeSource DownwardAPIProjection DownwardAPIVolumeFile DownwardAPIVolumeSource "
        "EmptyDirVolumeSource EphemeralVolumeSource FCVolumeSource FlexVolumeSource FlockerVolumeSource "
        "GCEPersistentDiskVolumeSource GitRepoVolumeSource GlusterfsVolumeSource HostPathVolumeSource "
        "ISCSIVolumeSource ImageVolumeSource KeyToPath NFSVolumeSource PersistentVolumeClaimTemplate "
        "PersistentVolumeClaimVolumeSource PhotonPersistentDiskVolumeSource PodCertificateProjection "
        "PortworxVolumeSource ProjectedVolumeSource QuobyteVolumeSource RBDVolumeSource ScaleIOVolumeSource "
        "SecretProjection SecretVolumeSource ServiceAccountTokenProjection StorageOSVolumeSource Volume "
        "VolumeProjection VsphereVirtualDiskVolumeSource"
    ),
    "core_v1_pod": (
        "HostAlias PodDNSConfig PodDNSConfigOption PodOS PodReadinessGate PodResourceClaim PodSchedulingGate "
        "PodSchedulingGroup PodSecurityContext PodSpec PodTemplateSpec Sysctl"
    ),
    "core_v1_service": "ClientIPConfig ServicePort ServiceSpec SessionAffinityConfig",
    "apps_v1_workload": (
        "DaemonSetSpec DaemonSetUpdateStrategy DeploymentSpec DeploymentStrategy RollingUpdateDaemonSet "
        "RollingUpdateDeployment RollingUpdateStatefulSetStrategy StatefulSetOrdinals "
        "StatefulSetPersistentVolumeClaimRetentionPolicy StatefulSetSpec StatefulSetUpdateStrategy"
    ),
    "batch_v1_job": (
        "CronJobSpec JobSpec JobTemplateSpec PodFailurePolicy PodFailurePolicyOnExitCodesRequirement "
        "PodFailurePolicyOnPodConditionsPattern PodFailurePolicyRule SuccessPolicy SuccessPolicyRule"
    ),
}
