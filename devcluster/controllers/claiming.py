"""Ownership by selector: controllers adopt matching orphans, and release objects that no longer match."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from devcluster.controllers.client import Client, Object
from devcluster.controllers.metadata import owner_reference
from devcluster.controllers.view import View
from devcluster.storage.selectors import LabelSelector

__all__ = ["claim", "claim_pods"]

PODS = ("", "pods")


async def claim_pods(
    client: Client, view: View, owner: Object, *, fit: Callable[[Object], bool] | None = None
) -> list[Object]:
    """Return the pods of `owner`, after adoption and release by its selector; `fit` filters them."""
    metadata, selector = owner["metadata"], owner["spec"]["selector"]
    owned = view.owned(PODS, metadata["uid"])
    strays = [
        stored.decode()
        for stored in view.pods(metadata["namespace"], selector)
        if (known := view.metadata(stored.key)) is None or known.controller is None
    ]
    if fit is not None:
        owned, strays = list(filter(fit, owned)), list(filter(fit, strays))
    return await claim(client, "pods", owner, owned, strays)


async def claim(
    client: Client, resource: str, owner: Object, owned: Sequence[Object], strays: Sequence[Object]
) -> list[Object]:
    """Release those of `owned` that are not selected any more, adopt `strays`; not when `owner` is going."""
    if owner["metadata"].get("deletionTimestamp"):
        return list(owned)
    matches = LabelSelector.of(owner["spec"]["selector"]).matches
    kept = []
    for obj in owned:
        if matches(obj["metadata"].get("labels") or {}):
            kept.append(obj)
        elif not obj["metadata"].get("deletionTimestamp"):
            await _set_owners(client, resource, obj, _owners(obj, besides=owner))
    for obj in strays:
        if not obj["metadata"].get("deletionTimestamp"):
            owners = [*_owners(obj, besides=owner), owner_reference(owner)]
            kept.append(await _set_owners(client, resource, obj, owners))
    return kept


def _owners(obj: Object, *, besides: Object) -> list[Object]:
    references: list[Object] = obj["metadata"].get("ownerReferences") or []
    return [reference for reference in references if reference["uid"] != besides["metadata"]["uid"]]


async def _set_owners(client: Client, resource: str, obj: Object, owners: list[Object]) -> Object:
    metadata = obj["metadata"]
    patch = {"metadata": {"uid": metadata["uid"], "ownerReferences": owners or None}}
    return await client.patch(resource, metadata["namespace"], metadata["name"], patch)
