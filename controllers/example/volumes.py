"""A site's volumes: they are created once, reused and grown, but never shrunk and never deleted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from apis.example.v1.wordpress import Wordpress
from controllers.example.parts import (
    PARTS,
    RETRY_REFUSED,
    Part,
    Trouble,
    blocked_if_refused,
    claim_for,
    is_refusal,
    take_up,
)
from manager import Context, ObjectKey
from manager.api import Quantity
from manager.kube.errors import ApiError
from manager.util import clock
from manager_kinds.core_v1 import PersistentVolumeClaim, PersistentVolumeClaimSpecDict
from manager_kinds.quantity import parse_quantity


class _Refusal(NamedTuple):
    """The API server's refusal to grow a claim to a size."""

    storage: str
    trouble: Trouble
    until: float


class Volumes:
    """The PersistentVolumeClaims of all sites, and the sizes that the API server has refused."""

    def __init__(self) -> None:
        self._refusals: dict[ObjectKey, _Refusal] = {}

    async def ensure(self, site: Wordpress, part: Part, ctx: Context) -> list[Trouble]:
        """Create, correct or grow the part's claim, and return its problems.

        Raises:
            Blocked: there is no claim that the part's pod could use.
        """
        claim = await ctx.find(PersistentVolumeClaim, part.claim(site))
        if claim is None:
            await ctx.confirm()  # a retained claim would outlive a deleted site
            claim = wanted_claim(site, part, ctx.program)
            name = f"PersistentVolumeClaim {claim.metadata.name}"
            with blocked_if_refused(name):
                await ctx.client.create(claim)
            ctx.event("Created", f"Created {name} of {site.spec.storage_size}")
            return []
        claim = await take_up(claim, site, part, ctx)
        return [*_not_as_wanted(site, claim), *await self._grow(site, claim, ctx)]

    def forget(self, site: ObjectKey) -> None:
        """Delete the stored refusals to grow the claims of a deleted site."""
        for part in PARTS:
            self._refusals.pop(ObjectKey(site.namespace, site.name + part.claim_suffix), None)

    async def _grow(self, site: Wordpress, claim: PersistentVolumeClaim, ctx: Context) -> list[Trouble]:
        storage = grown_storage(site, claim)
        refusal = self._refusals.get(claim.key)
        if refusal is not None and refusal.storage == storage and clock.monotonic() < refusal.until:
            return [refusal.trouble]
        self._refusals.pop(claim.key, None)
        if storage is None:
            return []
        await ctx.confirm()  # a grown claim cannot shrink
        requests = _requests(claim)
        before, requests["storage"] = requests["storage"], storage
        name = f"PersistentVolumeClaim {claim.metadata.name}"
        try:
            await ctx.client.patch(claim)
        except ApiError as error:
            if not is_refusal(error):
                raise
            message = f"{name} cannot grow from {before} to {storage}: {error}"
            trouble = Trouble("VolumeNotGrown", message, RETRY_REFUSED)
            self._refusals[claim.key] = _Refusal(storage, trouble, clock.monotonic() + RETRY_REFUSED)
            return [trouble]
        ctx.event("Grown", f"Grew {name} from {before} to {storage}")
        return []


def wanted_claim(site: Wordpress, part: Part, program: str) -> PersistentVolumeClaim:
    """Return the part's desired claim."""
    metadata = part.metadata(site, part.claim(site), program)
    claim_for(metadata, site, part, program)
    spec: PersistentVolumeClaimSpecDict = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": site.spec.storage_size}},
    }
    if site.spec.storage_class_name is not None:
        spec["storageClassName"] = site.spec.storage_class_name
    return PersistentVolumeClaim(metadata=metadata, spec=spec)


def grown_storage(site: Wordpress, claim: PersistentVolumeClaim) -> str | None:
    """Return the size that the claim must request; None if its request is large enough.

    A claim without a volume cannot grow yet; for such a claim, the result is None.
    """
    if claim.status.get("phase") != "Bound":
        return None
    wanted, asked = site.spec.storage_size, _requests(claim).get("storage", "0")
    return wanted if parse_quantity(wanted) > parse_quantity(str(asked)) else None


def _requests(claim: PersistentVolumeClaim) -> dict[str, Quantity]:
    """Return the requested sizes of a claim as a dict that the caller may change."""
    return claim.spec.get("resources", {}).get("requests", {})


def _not_as_wanted(site: Wordpress, claim: PersistentVolumeClaim) -> Iterator[Trouble]:
    name = f"PersistentVolumeClaim {claim.metadata.name}"
    wanted, found = site.spec.storage_class_name, claim.spec.get("storageClassName")
    if wanted not in (None, found):  # a reused claim may have another class
        has = f"storage class {found}" if found else "no storage class"
        message = f"{name} has {has}, not {wanted}, and cannot change it; it is used as it is"
        yield Trouble("StorageClassDiffers", message)
    if claim.status.get("phase") == "Lost":
        yield Trouble("VolumeLost", f"the volume of {name} is gone, with all its data")
