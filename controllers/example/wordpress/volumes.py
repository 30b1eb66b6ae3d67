"""A site's volumes: claimed once, taken up again, and grown; never shrunk and never deleted."""

from __future__ import annotations

from dataclasses import dataclass

from apis.example.v1.wordpress import Wordpress
from controllers.adoption import check_still_wanted
from controllers.example.wordpress.names import Part, child_metadata
from controllers.example.wordpress.obstacles import RETRY_REFUSED, Trouble, refused
from controllers.example.wordpress.ownership import check_ours, claim_for, is_claimed_for
from controllers.quantity import parse_quantity
from manager import clock
from manager.api import ObjectKey, ObjectMeta
from manager.api.core_v1 import (
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    VolumeResources,
)
from manager.client import Client
from manager.events import EventRecorder
from manager.kube.errors import Forbidden, Invalid

__all__ = ["Volumes", "grown_storage", "wanted_claim"]


@dataclass(frozen=True, slots=True)
class _Refusal:
    """That a claim may not grow to that size."""

    storage: str
    trouble: Trouble
    until: float


class Volumes:
    """Sees to the claims of all sites."""

    def __init__(self, client: Client, events: EventRecorder) -> None:
        self._client = client
        self._events = events
        self._refusals: dict[ObjectKey, _Refusal] = {}

    async def ensure(self, site: Wordpress, part: Part) -> list[Trouble]:
        """Make sure of the part's claim, and return what is not as wanted with it.

        Raises Obstacle when there is no claim that the part's pod could use, and NotWanted when the site is
        gone and the cache has not heard of it yet.
        """
        name = part.claim(site)
        key = ObjectKey(site.metadata.namespace, name)
        claim = await self._client.find(PersistentVolumeClaim, key)
        if claim is None:
            self._refusals.pop(key, None)
            await self._create(site, part)
            return []
        check_ours("PersistentVolumeClaim", claim.metadata, site)
        if not is_claimed_for(claim.metadata, site, part):
            await check_still_wanted(self._client, site)
            claim_for(claim.metadata, site, part)
            claim = await self._client.patch(claim)
            if site.metadata.generation == site.status.observed_generation:
                message = f"Put PersistentVolumeClaim {name} back as it should be"
                self._events.event(site, "Normal", "Restored", message)
        return [
            *_class_differs(site, claim),
            *_is_lost(claim),
            *await self._grow(site, claim),
        ]

    def forget(self, site: ObjectKey, part: Part) -> None:
        """Drop what is remembered of a site that is gone."""
        self._refusals.pop(ObjectKey(site.namespace, site.name + part.claim_suffix), None)

    async def _create(self, site: Wordpress, part: Part) -> None:
        # A volume that the site retains outlives it, and nobody else would remove it.
        await check_still_wanted(self._client, site)
        claim = wanted_claim(site, part)
        name = f"PersistentVolumeClaim {claim.metadata.name}"
        try:
            await self._client.create(claim)
        except (Forbidden, Invalid) as error:
            raise refused(name, error) from error
        self._events.event(site, "Normal", "Created", f"Created {name} of {site.spec.storage_size}")

    async def _grow(self, site: Wordpress, claim: PersistentVolumeClaim) -> list[Trouble]:
        storage = grown_storage(site, claim)
        if storage is None:
            self._refusals.pop(claim.key, None)
            return []
        refusal = self._refusals.get(claim.key)
        if refusal is not None and refusal.storage == storage and clock.monotonic() < refusal.until:
            return [refusal.trouble]
        await check_still_wanted(self._client, site)  # what has grown cannot shrink
        before = claim.spec.resources.requests["storage"]
        claim.spec.resources.requests["storage"] = storage
        name = f"PersistentVolumeClaim {claim.metadata.name}"
        try:
            await self._client.patch(claim)
        except (Forbidden, Invalid) as error:
            message = f"{name} cannot grow from {before} to {storage}: {error}"
            trouble = Trouble("VolumeNotGrown", message, RETRY_REFUSED)
            self._refusals[claim.key] = _Refusal(storage, trouble, clock.monotonic() + RETRY_REFUSED)
            return [trouble]
        self._refusals.pop(claim.key, None)
        self._events.event(site, "Normal", "Grown", f"Grew {name} from {before} to {storage}")
        return []


def wanted_claim(site: Wordpress, part: Part) -> PersistentVolumeClaim:
    """The part's claim as it is created."""
    metadata: ObjectMeta = child_metadata(site, part, part.claim(site))
    claim_for(metadata, site, part)
    return PersistentVolumeClaim(
        metadata=metadata,
        spec=PersistentVolumeClaimSpec(
            access_modes=["ReadWriteOnce"],
            storage_class_name=site.spec.storage_class_name,
            resources=VolumeResources(requests={"storage": site.spec.storage_size}),
        ),
    )


def grown_storage(site: Wordpress, claim: PersistentVolumeClaim) -> str | None:
    """What the claim has to ask for from now on; None when that is what it asks for, or less.

    A claim without a volume cannot change: it grows once it is bound.
    """
    if claim.status.phase != "Bound":
        return None
    wanted, asked = site.spec.storage_size, claim.spec.resources.requests.get("storage", "0")
    return wanted if parse_quantity(wanted) > parse_quantity(asked) else None


def _class_differs(site: Wordpress, claim: PersistentVolumeClaim) -> list[Trouble]:
    """A claim that was taken up may be of another class, which cannot change."""
    wanted, found = site.spec.storage_class_name, claim.spec.storage_class_name
    if wanted is None or wanted == found:
        return []
    name, found = claim.metadata.name, f"storage class {found}" if found else "no storage class"
    message = (
        f"PersistentVolumeClaim {name} has {found}, not {wanted}, and cannot change it; it is used as it is"
    )
    return [Trouble("StorageClassDiffers", message)]


def _is_lost(claim: PersistentVolumeClaim) -> list[Trouble]:
    if claim.status.phase != "Lost":
        return []
    message = f"the volume of PersistentVolumeClaim {claim.metadata.name} is gone, and with it what was on it"
    return [Trouble("VolumeLost", message)]
