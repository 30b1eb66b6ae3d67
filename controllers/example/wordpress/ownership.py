"""Whose a volume or a Secret is: with reclaimPolicy Retain it outlives its site, and has no owner."""

from __future__ import annotations

from apis.example.v1.wordpress import Wordpress
from controllers.example.wordpress.names import Part, identity, labels_of
from controllers.example.wordpress.obstacles import Obstacle, Trouble
from controllers.taken_names import LEFT_OVER, NAME_TAKEN, is_left_over, left_over
from manager.api import ObjectKey, ObjectMeta, OwnerReference, controller_of, controller_reference
from manager.client import Client

__all__ = [
    "check_ours",
    "claim_for",
    "goes_with",
    "is_claimed_for",
    "is_of_site_that_goes",
    "taken",
    "waits_for_collection",
]


def check_ours(kind: str, metadata: ObjectMeta, site: Wordpress) -> None:
    """Return if the object is the site's to use: controlled by it, or by nobody and with its labels.

    Raises Obstacle when it belongs to somebody else, or is about to go.
    """
    controller = controller_of(metadata)
    name = f"{kind} {metadata.name}"
    if is_left_over(controller, site):
        raise waits_for_collection(name, site)
    if controller is not None and controller.uid != site.metadata.uid:
        raise taken(f"{name} already exists and belongs to {controller.kind} {controller.name}")
    wanted = identity(site)
    if controller is None and not wanted.items() <= metadata.labels.items():
        shown = ",".join(f"{label}={value}" for label, value in wanted.items())
        raise taken(f"{name} already exists and was created by somebody else (ours have labels {shown})")
    if metadata.deletion_timestamp is not None:
        message = f"{name} is being deleted; it is made anew once it is gone"
        raise Obstacle(Trouble("BeingDeleted", message), awaited=True)


def taken(message: str) -> Obstacle:
    """The obstacle that a child's name belongs to somebody else."""
    return Obstacle(Trouble(NAME_TAKEN, f"{message}; it is left alone"))


def waits_for_collection(name: str, site: Wordpress) -> Obstacle:
    """The obstacle that what an earlier site of the name had is not collected yet."""
    return Obstacle(Trouble(LEFT_OVER, left_over(name, site)), passing=True)


async def is_of_site_that_goes(client: Client, controller: OwnerReference | None, site: Wordpress) -> bool:
    """Whether that controller is another site of the namespace that is being deleted, or gone already.

    What it had is then about to be collected, one child after the other. The API server is asked, because
    the end of a child may be heard of before that of its owner.
    """
    if (
        controller is None
        or controller.kind != site.gvk.kind
        or controller.api_version.rpartition("/")[0] != site.gvk.group
    ):
        return False
    holder = await client.uncached.find(Wordpress, ObjectKey(site.metadata.namespace, controller.name))
    return (
        holder is None
        or holder.metadata.uid != controller.uid
        or holder.metadata.deletion_timestamp is not None
    )


def goes_with(message: str) -> Obstacle:
    """The obstacle that what another site had, which is being deleted or gone, is not collected yet."""
    trouble = Trouble(LEFT_OVER, f"{message}, which is gone, or going: it is about to be collected")
    return Obstacle(trouble, passing=True)


def is_claimed_for(metadata: ObjectMeta, site: Wordpress, part: Part) -> bool:
    """Whether labels and owner are as the site wants them."""
    owned = any(reference.uid == site.metadata.uid for reference in metadata.owner_references)
    wanted = labels_of(site, part)
    return wanted.items() <= metadata.labels.items() and owned is (site.spec.reclaim_policy == "Delete")


def claim_for(metadata: ObjectMeta, site: Wordpress, part: Part) -> None:
    """Set the site's labels, and make it the owner, or not, as its reclaimPolicy wants it.

    Labels and owners that others have set stay.
    """
    metadata.labels.update(labels_of(site, part))
    others = [each for each in metadata.owner_references if each.uid != site.metadata.uid]
    if site.spec.reclaim_policy == "Delete":
        metadata.owner_references = [*others, controller_reference(site, metadata)]
    else:
        metadata.owner_references = others
