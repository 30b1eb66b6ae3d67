"""Who owns an object."""

from __future__ import annotations

from manager.api.meta import ObjectMeta, OwnerReference
from manager.api.resource import Resource

__all__ = ["OwnerReference", "controller_of", "controller_reference", "is_controlled_by"]


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """Return the reference to the owner that manages the object, or None."""
    for reference in meta.owner_references:
        if reference.controller:
            return reference
    return None


def controller_reference(owner: Resource, child: ObjectMeta) -> OwnerReference:
    """Return the reference that makes `owner`, which must exist on the server, the controller of a child.

    `child` is the child's metadata; it is not changed. Raises ValueError when `owner` cannot own it: it has
    no UID yet, or it lives in a namespace and the child in another or in none. The garbage collector would
    take such a child for an orphan, and delete it.
    """
    if not owner.metadata.uid:
        raise ValueError(f"{owner.kind} {owner.key} has no UID yet, so it cannot own anything")
    if owner.namespaced and child.namespace != owner.metadata.namespace:
        where = f"is in namespace {child.namespace}" if child.namespace else "is in no namespace"
        raise ValueError(f"{owner.kind} {owner.key} cannot own {child.name}, which {where}")
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
