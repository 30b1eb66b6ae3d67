"""PersistentVolumeClaim, as far as controllers read it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from apis.meta import ApiModel, Resource

__all__ = [
    "PersistentVolumeClaim",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimStatus",
    "VolumeResources",
]


class VolumeResources(ApiModel):
    """How large a volume has to be: quantities by name, of which there is `storage`."""

    requests: dict[str, str] = Field(default_factory=dict)


class PersistentVolumeClaimSpec(ApiModel):
    """The volume that is asked for."""

    access_modes: list[str] = Field(default_factory=list)
    storage_class_name: str | None = None
    resources: VolumeResources = Field(default_factory=VolumeResources)


class PersistentVolumeClaimStatus(ApiModel):
    """What became of the claim."""

    phase: str = ""
    """Pending, Bound, or Lost when the volume it was bound to is gone."""
    capacity: dict[str, Any] = Field(default_factory=dict)


class PersistentVolumeClaim(Resource, group="", version="v1", plural="persistentvolumeclaims"):
    """A wish for a volume, and the volume's name once it has one."""

    spec: PersistentVolumeClaimSpec = Field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = Field(default_factory=PersistentVolumeClaimStatus)
