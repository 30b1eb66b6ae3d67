"""What a site consists of: how its parts are called and labelled, whose they are, and what may be wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from apis.example.v1.wordpress import Wordpress
from manager import Blocked, Context, Resource
from manager.api import ObjectMeta, controller_of, controller_reference, recommended_labels
from manager.kube.errors import Forbidden, Invalid

R = TypeVar("R", bound=Resource)

ROOT_PASSWORD = "root-password"  # noqa: S105 - a key of the Secret
USER_PASSWORD = "password"  # noqa: S105 - a key of the Secret

RETRY_REFUSED = 300.0
"""How long to wait, in seconds, before asking again for what the API server has refused: a quota may have
been raised, or a storage class made expandable, and no event tells."""


@dataclass(frozen=True, slots=True)
class Part:
    """The database or the frontend of a site: each a Deployment, a Service and a volume."""

    workload_suffix: str
    """What the names of its Deployment, Service and Secret add to the site's; the frontend has no Secret."""
    claim_suffix: str
    tier: str
    application: str

    def workload(self, site: Wordpress) -> str:
        """Name of the Deployment, the Service and the Secret."""
        return site.metadata.name + self.workload_suffix

    def claim(self, site: Wordpress) -> str:
        """Name of the PersistentVolumeClaim."""
        return site.metadata.name + self.claim_suffix

    def selector(self, site: Wordpress) -> dict[str, str]:
        """The labels that select its pods. They can never change: a Deployment's selector cannot."""
        return {"app": site.metadata.name, "tier": self.tier}

    def labels(self, site: Wordpress, program: str) -> dict[str, str]:
        """All labels of what belongs to it."""
        ours = recommended_labels(
            site, program, name=self.application, component=self.tier, part_of="wordpress"
        )
        return {**self.selector(site), **ours}

    def metadata(self, site: Wordpress, name: str, program: str) -> ObjectMeta:
        """The metadata of a child."""
        return ObjectMeta(name=name, namespace=site.metadata.namespace, labels=self.labels(site, program))


DATABASE = Part("-mysql", "-mysql-pv-claim", "mysql", "mysql")
FRONTEND = Part("", "-wp-pv-claim", "frontend", "wordpress")
PARTS = (DATABASE, FRONTEND)


def identity(site: Wordpress, program: str) -> dict[str, str]:
    """The labels that tell a site's volumes and passwords from anybody else's.

    With reclaimPolicy Retain they outlive their site and have no owner, so nothing else does.
    """
    return {
        "app.kubernetes.io/managed-by": program,
        "app.kubernetes.io/instance": site.metadata.name,
    }


async def take_up(child: R, site: Wordpress, part: Part, ctx: Context) -> R:
    """Put the labels and the owner of a volume or a Secret right; raises as `check_ours`."""
    check_ours(child.kind, child.metadata, site, ctx.program)
    if not is_claimed_for(child.metadata, site, part, ctx.program):
        await ctx.confirm()  # an owned object is deleted with its owner
        claim_for(child.metadata, site, part, ctx.program)
    return await ctx.correct(child)


def check_ours(kind: str, metadata: ObjectMeta, site: Wordpress, program: str) -> None:
    """Return if the object is the site's to use: controlled by it, or by nobody and with its labels.

    Raises Blocked when it belongs to somebody else, or is about to go.
    """
    name, controller, ours = f"{kind} {metadata.name}", controller_of(metadata), identity(site, program)
    whose = ""
    if controller is None and not ours.items() <= metadata.labels.items():
        shown = ",".join(f"{label}={value}" for label, value in ours.items())
        whose = f"was created by somebody else (ours have labels {shown})"
    elif controller is not None and controller.uid != site.metadata.uid:
        if site.gvk.is_named_by(controller) and controller.name == site.metadata.name:
            deleted = metadata.deletion_timestamp is not None
            raise Blocked.left_over(name, site, metadata.finalizers if deleted else None)
        whose = f"belongs to {controller.kind} {controller.name}"
    if whose:
        raise Blocked.name_taken(f"{name} already exists and {whose}")
    if metadata.deletion_timestamp is not None:
        message = f"{name} is being deleted; it is made anew once it is gone"
        raise Blocked("BeingDeleted", message, awaited=True)


def is_claimed_for(metadata: ObjectMeta, site: Wordpress, part: Part, program: str) -> bool:
    """Whether labels and owner are as the site wants them."""
    owned = site.metadata.uid in {each.uid for each in metadata.owner_references}
    labelled = part.labels(site, program).items() <= metadata.labels.items()
    return labelled and owned is (site.spec.reclaim_policy == "Delete")


def claim_for(metadata: ObjectMeta, site: Wordpress, part: Part, program: str) -> None:
    """Set the site's labels, and make it the owner, or not, as its reclaimPolicy wants it.

    Labels and owners that others have set stay.
    """
    metadata.labels.update(part.labels(site, program))
    others = [each for each in metadata.owner_references if each.uid != site.metadata.uid]
    ours = [controller_reference(site, metadata)] if site.spec.reclaim_policy == "Delete" else []
    metadata.owner_references = [*others, *ours]


class Trouble(NamedTuple):
    """Something that is not as wanted, while the rest of the site can be seen to."""

    reason: str
    message: str
    retry_after: float | None = None
    title: str = ""
    """The beginning of a message whose rest may differ each time; the same title is no news."""


@contextmanager
def blocked_if_refused(name: str) -> Iterator[None]:
    """Raises Blocked where the API server does not take a child: a quota, a webhook, a missing right."""
    try:
        yield
    except (Forbidden, Invalid) as error:
        if error.is_namespace_terminating:
            raise
        raise Blocked("Refused", f"{name} is refused: {error}", retry_after=RETRY_REFUSED) from error
