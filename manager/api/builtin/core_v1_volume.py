# Made by scripts/generate-api-models; do not edit.
"""Types of core/v1: Volume."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from manager.api.builtin.core_v1_claim import PersistentVolumeClaimSpec
from manager.api.builtin.core_v1_container import ObjectFieldSelector, ResourceFieldSelector
from manager.api.builtin.core_v1_reference import LocalObjectReference
from manager.api.builtin.meta_v1_selector import LabelSelector
from manager.api.builtin.part import Part
from manager.api.meta import ObjectMeta
from manager.api.schema import Int32, Int64, Quantity, atomic_list, atomic_map, server_default

__all__ = [
    "AWSElasticBlockStoreVolumeSource",
    "AzureDiskVolumeSource",
    "AzureFileVolumeSource",
    "CSIVolumeSource",
    "CephFSVolumeSource",
    "CinderVolumeSource",
    "ClusterTrustBundleProjection",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "DownwardAPIProjection",
    "DownwardAPIVolumeFile",
    "DownwardAPIVolumeSource",
    "EmptyDirVolumeSource",
    "EphemeralVolumeSource",
    "FCVolumeSource",
    "FlexVolumeSource",
    "FlockerVolumeSource",
    "GCEPersistentDiskVolumeSource",
    "GitRepoVolumeSource",
    "GlusterfsVolumeSource",
    "HostPathVolumeSource",
    "ISCSIVolumeSource",
    "ImageVolumeSource",
    "KeyToPath",
    "NFSVolumeSource",
    "PersistentVolumeClaimTemplate",
    "PersistentVolumeClaimVolumeSource",
    "PhotonPersistentDiskVolumeSource",
    "PodCertificateProjection",
    "PortworxVolumeSource",
    "ProjectedVolumeSource",
    "QuobyteVolumeSource",
    "RBDVolumeSource",
    "ScaleIOVolumeSource",
    "SecretProjection",
    "SecretVolumeSource",
    "ServiceAccountTokenProjection",
    "StorageOSVolumeSource",
    "Volume",
    "VolumeProjection",
    "VsphereVirtualDiskVolumeSource",
]


class HostPathVolumeSource(Part):
    path: str
    type: str | None = None


class EmptyDirVolumeSource(Part):
    medium: str | None = None
    size_limit: Quantity | None = None


class GCEPersistentDiskVolumeSource(Part):
    pd_name: str
    fs_type: str | None = None
    partition: Int32 | None = None
    read_only: bool | None = None


class AWSElasticBlockStoreVolumeSource(Part):
    volume_id: Annotated[str, Field(alias="volumeID")]
    fs_type: str | None = None
    partition: Int32 | None = None
    read_only: bool | None = None


class GitRepoVolumeSource(Part):
    repository: str
    revision: str | None = None
    directory: str | None = None


class KeyToPath(Part):
    key: str
    path: str
    mode: Int32 | None = None


class SecretVolumeSource(Part):
    secret_name: str | None = None
    items: Annotated[list[KeyToPath] | None, atomic_list()] = None
    default_mode: Int32 | None = None
    optional: bool | None = None


class NFSVolumeSource(Part):
    server: str
    path: str
    read_only: bool | None = None


class ISCSIVolumeSource(Part):
    target_portal: str
    iqn: str
    lun: Int32
    iscsi_interface: Annotated[str | None, server_default("default")] = None
    fs_type: str | None = None
    read_only: bool | None = None
    portals: Annotated[list[str] | None, atomic_list()] = None
    chap_auth_discovery: bool | None = None
    chap_auth_session: bool | None = None
    secret_ref: LocalObjectReference | None = None
    initiator_name: str | None = None


class GlusterfsVolumeSource(Part):
    endpoints: str
    path: str
    read_only: bool | None = None


class PersistentVolumeClaimVolumeSource(Part):
    claim_name: str
    read_only: bool | None = None


class RBDVolumeSource(Part):
    monitors: Annotated[list[str], atomic_list()]
    image: str
    fs_type: str | None = None
    pool: Annotated[str | None, server_default("rbd")] = None
    user: Annotated[str | None, server_default("admin")] = None
    keyring: Annotated[str | None, server_default("/etc/ceph/keyring")] = None
    secret_ref: LocalObjectReference | None = None
    read_only: bool | None = None


class FlexVolumeSource(Part):
    driver: str
    fs_type: str | None = None
    secret_ref: LocalObjectReference | None = None
    read_only: bool | None = None
    options: dict[str, str] | None = None


class CinderVolumeSource(Part):
    volume_id: Annotated[str, Field(alias="volumeID")]
    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None


class CephFSVolumeSource(Part):
    monitors: Annotated[list[str], atomic_list()]
    path: str | None = None
    user: str | None = None
    secret_file: str | None = None
    secret_ref: LocalObjectReference | None = None
    read_only: bool | None = None


class FlockerVolumeSource(Part):
    dataset_name: str | None = None
    dataset_uuid: Annotated[str | None, Field(alias="datasetUUID")] = None


class DownwardAPIVolumeFile(Part):
    path: str
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: Int32 | None = None


class DownwardAPIVolumeSource(Part):
    items: Annotated[list[DownwardAPIVolumeFile] | None, atomic_list()] = None
    default_mode: Int32 | None = None


class FCVolumeSource(Part):
    target_wwns: Annotated[list[str] | None, Field(alias="targetWWNs"), atomic_list()] = None
    lun: Int32 | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    wwids: Annotated[list[str] | None, atomic_list()] = None


class AzureFileVolumeSource(Part):
    secret_name: str
    share_name: str
    read_only: bool | None = None


class ConfigMapVolumeSource(Part, json_schema_extra=atomic_map()):
    name: Annotated[str | None, server_default("")] = None
    items: Annotated[list[KeyToPath] | None, atomic_list()] = None
    default_mode: Int32 | None = None
    optional: bool | None = None


class VsphereVirtualDiskVolumeSource(Part):
    volume_path: str
    fs_type: str | None = None
    storage_policy_name: str | None = None
    storage_policy_id: Annotated[str | None, Field(alias="storagePolicyID")] = None


class QuobyteVolumeSource(Part):
    registry: str
    volume: str
    read_only: bool | None = None
    user: str | None = None
    group: str | None = None
    tenant: str | None = None


class AzureDiskVolumeSource(Part):
    disk_name: str
    disk_uri: Annotated[str, Field(alias="diskURI")]
    caching_mode: Annotated[str | None, server_default("ReadWrite")] = None
    fs_type: Annotated[str | None, server_default("ext4")] = None
    read_only: Annotated[bool | None, server_default(False)] = None
    kind: Annotated[str | None, server_default("Shared")] = None


class PhotonPersistentDiskVolumeSource(Part):
    pd_id: Annotated[str, Field(alias="pdID")]
    fs_type: str | None = None


class SecretProjection(Part, json_schema_extra=atomic_map()):
    name: Annotated[str | None, server_default("")] = None
    items: Annotated[list[KeyToPath] | None, atomic_list()] = None
    optional: bool | None = None


class DownwardAPIProjection(Part):
    items: Annotated[list[DownwardAPIVolumeFile] | None, atomic_list()] = None


class ConfigMapProjection(Part, json_schema_extra=atomic_map()):
    name: Annotated[str | None, server_default("")] = None
    items: Annotated[list[KeyToPath] | None, atomic_list()] = None
    optional: bool | None = None


class ServiceAccountTokenProjection(Part):
    audience: str | None = None
    expiration_seconds: Int64 | None = None
    path: str


class ClusterTrustBundleProjection(Part):
    name: str | None = None
    signer_name: str | None = None
    label_selector: LabelSelector | None = None
    optional: bool | None = None
    path: str


class PodCertificateProjection(Part):
    signer_name: str
    key_type: str
    max_expiration_seconds: Int32 | None = None
    credential_bundle_path: str | None = None
    key_path: str | None = None
    certificate_chain_path: str | None = None
    user_annotations: dict[str, str] | None = None


class VolumeProjection(Part):
    secret: SecretProjection | None = None
    downward_api: Annotated[DownwardAPIProjection | None, Field(alias="downwardAPI")] = None
    config_map: ConfigMapProjection | None = None
    service_account_token: ServiceAccountTokenProjection | None = None
    cluster_trust_bundle: ClusterTrustBundleProjection | None = None
    pod_certificate: PodCertificateProjection | None = None


class ProjectedVolumeSource(Part):
    sources: Annotated[list[VolumeProjection] | None, atomic_list()] = None
    default_mode: Int32 | None = None


class PortworxVolumeSource(Part):
    volume_id: Annotated[str, Field(alias="volumeID")]
    fs_type: str | None = None
    read_only: bool | None = None


class ScaleIOVolumeSource(Part):
    gateway: str
    system: str
    secret_ref: LocalObjectReference
    ssl_enabled: bool | None = None
    protection_domain: str | None = None
    storage_pool: str | None = None
    storage_mode: Annotated[str | None, server_default("ThinProvisioned")] = None
    volume_name: str | None = None
    fs_type: Annotated[str | None, server_default("xfs")] = None
    read_only: bool | None = None


class StorageOSVolumeSource(Part):
    volume_name: str | None = None
    volume_namespace: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None


class CSIVolumeSource(Part):
    driver: str
    read_only: bool | None = None
    fs_type: str | None = None
    volume_attributes: dict[str, str] | None = None
    node_publish_secret_ref: LocalObjectReference | None = None


class PersistentVolumeClaimTemplate(Part):
    metadata: ObjectMeta | None = None
    spec: PersistentVolumeClaimSpec


class EphemeralVolumeSource(Part):
    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class ImageVolumeSource(Part):
    reference: str | None = None
    pull_policy: str | None = None


class Volume(Part):
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
    downward_api: Annotated[DownwardAPIVolumeSource | None, Field(alias="downwardAPI")] = None
    fc: FCVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    quobyte: QuobyteVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    photon_persistent_disk: PhotonPersistentDiskVolumeSource | None = None
    projected: ProjectedVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    scale_io: Annotated[ScaleIOVolumeSource | None, Field(alias="scaleIO")] = None
    storageos: StorageOSVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    image: ImageVolumeSource | None = None
