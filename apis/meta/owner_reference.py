"""A reference from an object to its owner."""

from __future__ import annotations

from apis.meta.model import ApiModel

__all__ = ["OwnerReference"]


class OwnerReference(ApiModel):
    """Names an owner, in the same namespace or cluster-scoped; when all owners are gone, so is the object."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    """True for the one owner that manages the object."""
    block_owner_deletion: bool | None = None
    """True to keep the owner, when it is deleted in the foreground, until the object is gone."""
