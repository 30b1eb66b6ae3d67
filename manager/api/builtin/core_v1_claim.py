# Made by scripts/generate-api-models; do not edit.
"""Types of core/v1: PersistentVolumeClaim."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from manager.api.builtin.core_v1_reference import TypedLocalObjectReference
from manager.api.builtin.meta_v1_selector import LabelSelector
from manager.api.builtin.part import Part
from manager.api.resource import Resource
from manager.api.schema import Quantity, atomic_list, granular_map, list_map

__all__ = [
    "ModifyVolumeStatus",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimCondition",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimStatus",
    "TypedObjectReference",
    "VolumeResourceRequirements",
]


class VolumeResourceRequirements(Part):
    limits: dict[str, Quantity] | None = None
    requests: dict[str, Quantity] | None = None


class TypedObjectReference(Part):
    api_group: str | None = None
    kind: str
    name: str
    namespace: str | None = None


class PersistentVolumeClaimSpec(Part):
    access_modes: Annotated[list[str] | None, atomic_list()] = None
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements | None = None
    volume_name: str | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    data_source: TypedLocalObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimCondition(Part):
    type: str
    status: str
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None
    reason: str | None = None
    message: str | None = None


class ModifyVolumeStatus(Part):
    target_volume_attributes_class_name: str | None = None
    status: str


class PersistentVolumeClaimStatus(Part):
    phase: str | None = None
    access_modes: Annotated[list[str] | None, atomic_list()] = None
    capacity: dict[str, Quantity] | None = None
    conditions: Annotated[list[PersistentVolumeClaimCondition] | None, list_map("type")] = None
    allocated_resources: dict[str, Quantity] | None = None
    allocated_resource_statuses: Annotated[dict[str, str] | None, granular_map()] = None
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None


class PersistentVolumeClaim(Resource, group="", version="v1", plural="persistentvolumeclaims"):
    spec: PersistentVolumeClaimSpec = Field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = Field(default_factory=PersistentVolumeClaimStatus)
