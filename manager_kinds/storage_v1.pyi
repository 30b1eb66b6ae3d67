# Made by scripts/generate-kinds; do not edit.
from datetime import datetime
from typing import Required, TypedDict

from manager.api import Quantity, Resource
from manager_kinds.core_v1 import PersistentVolumeSpec, PersistentVolumeSpecDict, TopologySelectorTermDict
from manager_kinds.factory import Part
from manager_kinds.meta_v1 import LabelSelectorDict

__all__ = [
    "CSIDriver",
    "CSIDriverSpec",
    "CSIDriverSpecDict",
    "CSINode",
    "CSINodeDriver",
    "CSINodeDriverDict",
    "CSINodeSpec",
    "CSINodeSpecDict",
    "CSIStorageCapacity",
    "StorageClass",
    "TokenRequest",
    "TokenRequestDict",
    "VolumeAttachment",
    "VolumeAttachmentSource",
    "VolumeAttachmentSourceDict",
    "VolumeAttachmentSpec",
    "VolumeAttachmentSpecDict",
    "VolumeAttachmentStatus",
    "VolumeAttachmentStatusDict",
    "VolumeAttributesClass",
    "VolumeError",
    "VolumeErrorDict",
    "VolumeNodeResources",
    "VolumeNodeResourcesDict",
]

class CSIDriver(Resource, group="storage.k8s.io", version="v1", plural="csidrivers", namespaced=False):
    """CSIDriver of storage.k8s.io/v1, cluster-scoped."""

    spec: CSIDriverSpecDict = {}

class CSIDriverSpec(Part[CSIDriverSpecDict]):
    attach_required: bool | None = None
    pod_info_on_mount: bool | None = None
    volume_lifecycle_modes: list[str] | None = None
    storage_capacity: bool | None = None
    fs_group_policy: str | None = None
    token_requests: list[TokenRequest] | None = None
    requires_republish: bool | None = None
    se_linux_mount: bool | None = None
    node_allocatable_update_period_seconds: int | None = None
    service_account_token_in_secrets: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None

class CSIDriverSpecDict(TypedDict, total=False):
    attachRequired: bool
    podInfoOnMount: bool
    volumeLifecycleModes: list[str]
    storageCapacity: bool
    fsGroupPolicy: str
    tokenRequests: list[TokenRequestDict]
    requiresRepublish: bool
    seLinuxMount: bool
    nodeAllocatableUpdatePeriodSeconds: int
    serviceAccountTokenInSecrets: bool
    preventPodSchedulingIfMissing: bool

class CSINode(Resource, group="storage.k8s.io", version="v1", plural="csinodes", namespaced=False):
    """CSINode of storage.k8s.io/v1, cluster-scoped."""

    spec: CSINodeSpecDict = {}

class CSINodeDriver(Part[CSINodeDriverDict]):
    name: str
    node_id: str
    topology_keys: list[str] | None = None
    allocatable: VolumeNodeResources | None = None

class CSINodeDriverDict(TypedDict, total=False):
    name: Required[str]
    nodeID: Required[str]
    topologyKeys: list[str]
    allocatable: VolumeNodeResourcesDict

class CSINodeSpec(Part[CSINodeSpecDict]):
    drivers: list[CSINodeDriver]

class CSINodeSpecDict(TypedDict, total=False):
    drivers: list[CSINodeDriverDict]

class CSIStorageCapacity(Resource, group="storage.k8s.io", version="v1", plural="csistoragecapacities"):
    """CSIStorageCapacity of storage.k8s.io/v1."""

    node_topology: LabelSelectorDict | None = None
    storage_class_name: str
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None

class StorageClass(Resource, group="storage.k8s.io", version="v1", plural="storageclasses", namespaced=False):
    """StorageClass of storage.k8s.io/v1, cluster-scoped."""

    provisioner: str
    parameters: dict[str, str] | None = None
    reclaim_policy: str | None = None
    mount_options: list[str] | None = None
    allow_volume_expansion: bool | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologySelectorTermDict] | None = None

class TokenRequest(Part[TokenRequestDict]):
    audience: str
    expiration_seconds: int | None = None

class TokenRequestDict(TypedDict, total=False):
    audience: Required[str]
    expirationSeconds: int

class VolumeAttachment(
    Resource, group="storage.k8s.io", version="v1", plural="volumeattachments", namespaced=False
):
    """VolumeAttachment of storage.k8s.io/v1, cluster-scoped."""

    spec: VolumeAttachmentSpecDict = {}
    status: VolumeAttachmentStatusDict = {}

class VolumeAttachmentSource(Part[VolumeAttachmentSourceDict]):
    persistent_volume_name: str | None = None
    inline_volume_spec: PersistentVolumeSpec | None = None

class VolumeAttachmentSourceDict(TypedDict, total=False):
    persistentVolumeName: str
    inlineVolumeSpec: PersistentVolumeSpecDict

class VolumeAttachmentSpec(Part[VolumeAttachmentSpecDict]):
    attacher: str
    source: VolumeAttachmentSource
    node_name: str

class VolumeAttachmentSpecDict(TypedDict, total=False):
    attacher: str
    source: VolumeAttachmentSourceDict
    nodeName: str

class VolumeAttachmentStatus(Part[VolumeAttachmentStatusDict]):
    attached: bool
    attachment_metadata: dict[str, str] | None = None
    attach_error: VolumeError | None = None
    detach_error: VolumeError | None = None

class VolumeAttachmentStatusDict(TypedDict, total=False):
    attached: bool
    attachmentMetadata: dict[str, str]
    attachError: VolumeErrorDict
    detachError: VolumeErrorDict

class VolumeAttributesClass(
    Resource, group="storage.k8s.io", version="v1", plural="volumeattributesclasses", namespaced=False
):
    """VolumeAttributesClass of storage.k8s.io/v1, cluster-scoped."""

    driver_name: str
    parameters: dict[str, str] | None = None

class VolumeError(Part[VolumeErrorDict]):
    time: datetime | None = None
    message: str | None = None
    error_code: int | None = None

class VolumeErrorDict(TypedDict, total=False):
    time: str
    message: str
    errorCode: int

class VolumeNodeResources(Part[VolumeNodeResourcesDict]):
    count: int | None = None

class VolumeNodeResourcesDict(TypedDict, total=False):
    count: int
