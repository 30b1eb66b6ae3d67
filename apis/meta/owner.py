"""Who owns an object."""

from __future__ import annotations

from apis.meta.object_meta import ObjectMeta
from apis.meta.owner_reference import OwnerReference
from apis.meta.resource import Resource

__all__ = ["OwnerReference", "controller_of", "controller_reference", "is_controlled_by"]


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """Return the reference to the owner that manages the object, or None."""
    for reference in meta.owner_references:
        if reference.controller:
            return reference
    return None


def controller_reference(owner: Resource) -> OwnerReference:
    """Return the reference that makes `owner`, which must exist on the server, an object's controller.

    Raises ValueError when `owner` has no UID: the garbage collector would take the child for an orphan.
    """
    if not owner.metadata.uid:
        raise ValueError(f"{owner.kind} {owner.key} has no UID yet, so it cannot own anything")
    return OwnerReference(
        api_version=owner.gvk.api_version,
        kind=owner.gvk.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def is_controlled_by(meta: ObjectMeta, owner: Resource) -> bool:
    """True when `owner` is the controller; by UID, because a name can be used again by another object."""
    controller = controller_of(meta)
    return controller is not None and controller.uid == owner.metadata.uid
