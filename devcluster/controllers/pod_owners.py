"""Common parts of workload controllers: pods of a template, claims to them, revisions."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Collection, Sequence
from typing import Any

import orjson

from devcluster.controllers.client import PODS, Client, Object, owner_reference
from devcluster.controllers.controller import Controller, View
from devcluster.errors import StatusError
from devcluster.storage.selectors import LabelSelector

_PRIME, _OFFSET, _MASK = 0x01000193, 0x811C9DC5, 0xFFFFFFFF
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""The letters and digits of Kubernetes' random names: no vowels, and no digits that resemble letters."""


def template_hash(value: Any, collisions: int | None = None) -> str:
    """Return the FNV-1a hash of the sorted JSON, in letters that form no words.

    The real server hashes a dump of Go's memory instead. `collisions` counts how often the result was in use.
    """
    data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    if collisions is not None:
        data += str(collisions).encode()
    digest = _OFFSET
    for byte in data:
        digest = ((digest ^ byte) * _PRIME) & _MASK
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(digest))


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


class PodController(Controller):
    """A controller whose objects own pods."""

    async def create_pod(self, owner: Object, pod: Object) -> Object:
        """Create it and say so, or why not."""
        try:
            created = await self.client.create("pods", owner["metadata"]["namespace"], pod)
        except StatusError as error:
            message = f"Error creating: {error.message}"
            self.warn(owner, "FailedCreate", message)
            raise
        message = f"Created pod: {created['metadata']['name']}"
        self.normal(owner, "SuccessfulCreate", message)
        await asyncio.sleep(0)  # an owner of many pods lets others work, too
        return created

    async def delete_pod(self, owner: Object, pod: Object) -> None:
        """Delete it and say so."""
        metadata = pod["metadata"]
        await self.client.delete("pods", metadata["namespace"], metadata["name"], uid=metadata["uid"])
        message = f"Deleted pod: {metadata['name']}"
        self.normal(owner, "SuccessfulDelete", message)
        await asyncio.sleep(0)


REVISIONS = ("apps", "controllerrevisions")
RESOURCE = "controllerrevisions.apps"


class History:
    """The revisions of one object, oldest first."""

    def __init__(self, client: Client, view: View, owner: Object, *, hash_label: str) -> None:
        """Read the owner's revisions; `hash_label` is the label with a revision's hash."""
        self._client = client
        self._owner = owner
        self._hash_label = hash_label
        revisions = view.owned(REVISIONS, owner["metadata"]["uid"])
        self.revisions = sorted(revisions, key=lambda each: (each["revision"], each["metadata"]["name"]))

    def find(self, name: str) -> Object | None:
        """Return the revision of that name, or None."""
        return next((each for each in self.revisions if each["metadata"]["name"] == name), None)

    async def update(self) -> Object:
        """Return the newest revision, the current template's; creates it or renumbers an old one."""
        data = {"spec": {"template": {**copy.deepcopy(self._owner["spec"]["template"]), "$patch": "replace"}}}
        latest = self.revisions[-1]["revision"] if self.revisions else 0
        for revision in reversed(self.revisions):
            if revision["data"] == data:
                if revision["revision"] != latest:
                    renumbered = {**revision, "revision": latest + 1}
                    namespace = self._owner["metadata"]["namespace"]
                    revision.update(await self._client.update(RESOURCE, namespace, renumbered))
                    self.revisions.sort(key=lambda each: each["revision"])
                return revision
        return await self._create(data, latest + 1)

    async def truncate(self, live: Collection[str]) -> None:
        """Delete the oldest beyond the limit, apart from those that pods have."""
        limit = self._owner["spec"].get("revisionHistoryLimit", 10)
        idle = [each for each in self.revisions if each["metadata"]["name"] not in live]
        for revision in idle[: max(len(idle) - limit, 0)]:
            metadata = revision["metadata"]
            await self._client.delete(RESOURCE, metadata["namespace"], metadata["name"], uid=metadata["uid"])
            self.revisions.remove(revision)

    async def _create(self, data: Object, number: int) -> Object:
        metadata = self._owner["metadata"]
        digest = template_hash(data, (self._owner.get("status") or {}).get("collisionCount"))
        labels = (self._owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
        revision: Object = {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": f"{metadata['name']}-{digest}",
                "namespace": metadata["namespace"],
                "labels": {**labels, self._hash_label: digest},
                "ownerReferences": [owner_reference(self._owner)],
            },
            "data": data,
            "revision": number,
        }
        if metadata.get("annotations"):
            revision["metadata"]["annotations"] = dict(metadata["annotations"])
        created = await self._client.create(RESOURCE, metadata["namespace"], revision)
        self.revisions.append(created)
        return created
