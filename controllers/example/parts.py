"""The parts of a site: their names, labels and owners, and the errors about them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from apis.example.v1.wordpress import Wordpress
from manager import Blocked, Context, Resource
from manager.api import ObjectMeta, controller_of, controller_reference, recommended_labels
from manager.kube.errors import ApiError, Forbidden, Invalid

R = TypeVar("R", bound=Resource)

ROOT_PASSWORD = "root-password"  # noqa: S105 - the name of a key in the Secret
USER_PASSWORD = "password"  # noqa: S105 - the name of a key in the Secret

# The messages about a webhook and about a ValidatingAdmissionPolicy.
_is_denial = re.compile(r" denied (the )?request").search

RETRY_REFUSED = 300.0
"""Seconds until a request is repeated after the API server has refused it.

By then an administrator may have raised a quota or made a storage class expandable; no event reports such a
change."""


@dataclass(frozen=True, slots=True)
class Part:
    """The database or the frontend of a site, each with a Deployment, a Service and a volume."""

    workload_suffix: str
    """The suffix of the names of its Deployment, Service and Secret; the frontend has no Secret."""
    claim_suffix: str
    tier: str
    application: str

    def workload(self, site: Wordpress) -> str:
        """Return the common name of the part's Deployment, Service and Secret."""
        return site.metadata.name + self.workload_suffix

    def claim(self, site: Wordpress) -> str:
        """Return the name of the part's PersistentVolumeClaim."""
        return site.metadata.name + self.claim_suffix

    def selector(self, site: Wordpress) -> dict[str, str]:
        """Return the labels that select the pods; they never change: a Deployment's selector is immutable."""
        return {"app": site.metadata.name, "tier": self.tier}

    def labels(self, site: Wordpress, program: str) -> dict[str, str]:
        """Return all labels of the part's objects; `program` is the value of the managed-by label."""
        ours = recommended_labels(
            site, program, name=self.application, component=self.tier, part_of="wordpress"
        )
        return {**self.selector(site), **ours}

    def metadata(self, site: Wordpress, name: str, program: str) -> ObjectMeta:
        """Return the metadata for one of the part's objects."""
        return ObjectMeta(name=name, namespace=site.metadata.namespace, labels=self.labels(site, program))


DATABASE = Part("-mysql", "-mysql-pv-claim", "mysql", "mysql")
FRONTEND = Part("", "-wp-pv-claim", "frontend", "wordpress")
PARTS = (DATABASE, FRONTEND)


def identity(site: Wordpress, program: str) -> dict[str, str]:
    """Return the labels that identify a site's volumes and passwords.

    With reclaimPolicy Retain, volumes and passwords outlive the site and have no owner, so only labels
    identify them.
    """
    return {
        "app.kubernetes.io/managed-by": program,
        "app.kubernetes.io/instance": site.metadata.name,
    }


async def take_up(child: R, site: Wordpress, part: Part, ctx: Context) -> R:
    """Correct the labels and the owner of the site's volume or Secret; raises the errors of `check_ours`."""
    check_ours(child.kind, child.metadata, site, ctx.program)
    if not is_claimed_for(child.metadata, site, part, ctx.program):
        await ctx.confirm()  # a deletion of the site would delete the object, too
        claim_for(child.metadata, site, part, ctx.program)
    return await ctx.correct(child)


def check_ours(kind: str, metadata: ObjectMeta, site: Wordpress, program: str) -> None:
    """Raise Blocked if the object is not ours, or if it is being deleted.

    The object is ours if the site controls it, or if it has the site's labels and no controller.
    """
    name, controller, ours = f"{kind} {metadata.name}", controller_of(metadata), identity(site, program)
    whose = ""
    if controller is None and not ours.items() <= metadata.labels.items():
        shown = ",".join(f"{label}={value}" for label, value in ours.items())
        whose = f"was created by somebody else (ours have labels {shown})"
    elif controller is not None and controller.uid != site.metadata.uid:
        if site.gvk.is_named_by(controller) and controller.name == site.metadata.name:
            deleted = metadata.deletion_timestamp is not None
            raise Blocked.by_earlier_child(name, site, metadata.finalizers if deleted else None)
        whose = f"belongs to {controller.kind} {controller.name}"
    if whose:
        raise Blocked.name_taken(f"{name} already exists and {whose}")
    if metadata.deletion_timestamp is not None:
        message = f"{name} is being deleted; it is created again after that"
        raise Blocked("BeingDeleted", message, awaited=True)


def is_claimed_for(metadata: ObjectMeta, site: Wordpress, part: Part, program: str) -> bool:
    """Return whether the object has the site's labels, and the owner that reclaimPolicy requires.

    With reclaimPolicy Delete, the site must be an owner; otherwise, it must not be an owner.
    """
    owned = site.metadata.uid in {each.uid for each in metadata.owner_references}
    labelled = part.labels(site, program).items() <= metadata.labels.items()
    return labelled and owned is (site.spec.reclaim_policy == "Delete")


def claim_for(metadata: ObjectMeta, site: Wordpress, part: Part, program: str) -> None:
    """Set the site's labels, and add or remove the site as owner, according to its reclaimPolicy.

    Other labels and owners are kept.
    """
    metadata.labels.update(part.labels(site, program))
    others = [each for each in metadata.owner_references if each.uid != site.metadata.uid]
    ours = [controller_reference(site, metadata)] if site.spec.reclaim_policy == "Delete" else []
    metadata.owner_references = [*others, *ours]


class Trouble(NamedTuple):
    """A problem with one part of a site; the operator continues with the other parts."""

    reason: str
    message: str
    retry_after: float | None = None
    title: str = ""
    """The constant beginning of a varying message; a message with the same title causes no new Event."""


def is_refusal(error: ApiError) -> bool:
    """Return whether the server refuses a request that it understands; a webhook may use any status code."""
    return isinstance(error, (Forbidden, Invalid)) or _is_denial(error.message) is not None


@contextmanager
def blocked_if_refused(name: str) -> Iterator[None]:
    """Raise Blocked if the API server refuses a child, because of a quota, a webhook or missing rights."""
    try:
        yield
    except ApiError as error:
        if error.is_namespace_terminating or not is_refusal(error):
            raise
        raise Blocked("Refused", f"{name} is refused: {error}", retry_after=RETRY_REFUSED) from error
