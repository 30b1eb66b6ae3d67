"""Common code of workload controllers: pods from a template, adoption of pods, ControllerRevisions."""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import Callable, Collection
from typing import Any

import orjson

from devcluster.builtin.checks import percent_of
from devcluster.controllers.client import PODS, REVISIONS, Object, Resource, is_going, owner_reference
from devcluster.controllers.controller import Controller
from devcluster.errors import StatusError
from devcluster.storage.selectors import LabelSelector

_PRIME, _OFFSET, _MASK = 0x01000193, 0x811C9DC5, 0xFFFFFFFF
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""The letters and digits of Kubernetes' random names: no vowels, and no digits that resemble letters."""


def template_hash(value: Any, collisions: int | None = None) -> str:
    """Return a hash of the value's sorted JSON, in letters that cannot form words.

    `collisions` is the collisionCount, which changes the hash. The real server's hashes differ, because it
    hashes a dump of Go values.
    """
    data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    if collisions is not None:
        data += str(collisions).encode()
    digest = _OFFSET
    for byte in data:
        digest = ((digest ^ byte) * _PRIME) & _MASK
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(digest))


def scaled(value: int | str, total: int, *, up: bool) -> int:
    """Resolve an int-or-percent value against `total`; round it up or, without `up`, down."""
    if isinstance(value, int):
        return value
    part = (percent_of(value) or 0) * total / 100
    return math.ceil(part) if up else math.floor(part)


class PodController(Controller):
    """Base class of controllers whose objects own pods or, like Deployments, ReplicaSets."""

    async def claim(
        self, owner: Object, *, resource: Resource = PODS, fit: Callable[[Object], bool] | None = None
    ) -> list[Object]:
        """Adopt and release objects by the selector of `owner`; return those that the owner now controls.

        `fit` excludes the objects for which it returns False.
        """
        metadata, selector = owner["metadata"], owner["spec"]["selector"]
        owned = self.view.owned(resource, metadata["uid"])
        strays = [
            stored.decode()
            for stored in self.view.selected(resource, metadata["namespace"], selector)
            if (known := self.view.metadata(stored.key)) is None or known.controller is None
        ]
        if fit is not None:
            owned, strays = list(filter(fit, owned)), list(filter(fit, strays))
        if is_going(owner):
            return owned
        matches = LabelSelector.of(selector).matches
        kept = []
        for obj in owned:
            if matches(obj["metadata"].get("labels") or {}):
                kept.append(obj)
            elif not is_going(obj):
                await self.patch(resource, obj, ownerReferences=_owners(obj, besides=owner) or None)
        for obj in strays:
            if not is_going(obj):
                owners = [*_owners(obj, besides=owner), owner_reference(owner)]
                kept.append(await self.patch(resource, obj, ownerReferences=owners))
        return kept

    async def create_pod(self, owner: Object, pod: Object) -> Object:
        """Create a pod, and record an Event for the success or the failure."""
        try:
            created = await self.create(PODS, pod)
        except StatusError as error:
            self.warn(owner, "FailedCreate", f"Error creating: {error.message}")
            raise
        self.normal(owner, "SuccessfulCreate", f"Created pod: {created['metadata']['name']}")
        await asyncio.sleep(0)  # an owner of many pods lets other tasks run
        return created

    async def delete_pod(self, owner: Object, pod: Object) -> None:
        """Delete a pod and record an Event."""
        await self.delete(PODS, pod)
        self.normal(owner, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")
        await asyncio.sleep(0)


def _owners(obj: Object, *, besides: Object) -> list[Object]:
    references: list[Object] = obj["metadata"].get("ownerReferences") or []
    return [reference for reference in references if reference["uid"] != besides["metadata"]["uid"]]


class History:
    """ControllerRevisions of one object, from the oldest to the newest."""

    def __init__(
        self, controller: Controller, owner: Object, revisions: Collection[Object], *, hash_label: str
    ) -> None:
        """Set up the history; `hash_label` is the label that contains a revision's hash."""
        self._controller = controller
        self._owner = owner
        self._hash_label = hash_label
        self.revisions = sorted(revisions, key=lambda each: (each["revision"], each["metadata"]["name"]))

    @classmethod
    async def claim(cls, controller: PodController, owner: Object, *, hash_label: str) -> History:
        """Return the owner's history, after adopting ControllerRevisions without an owner."""

        def has_hash(revision: Object) -> bool:
            return hash_label in (revision["metadata"].get("labels") or {})

        revisions = await controller.claim(owner, resource=REVISIONS, fit=has_hash)
        return cls(controller, owner, revisions, hash_label=hash_label)

    def find(self, name: str) -> Object | None:
        """Return the revision with this name, or None."""
        return next((each for each in self.revisions if each["metadata"]["name"] == name), None)

    async def update(self) -> Object:
        """Return the revision of the owner's current template; create it, or make an old one the latest."""
        data = {"spec": {"template": {**copy.deepcopy(self._owner["spec"]["template"]), "$patch": "replace"}}}
        latest = self.revisions[-1]["revision"] if self.revisions else 0
        for revision in reversed(self.revisions):
            if revision["data"] == data:
                if revision["revision"] != latest:
                    renumbered = {**revision, "revision": latest + 1}
                    revision.update(await self._controller.update(REVISIONS, renumbered))
                    self.revisions.sort(key=lambda each: each["revision"])
                return revision
        return await self._create(data, latest + 1)

    async def truncate(self, live: Collection[str]) -> None:
        """Delete the oldest revisions above revisionHistoryLimit, without counting those named in `live`."""
        limit = self._owner["spec"].get("revisionHistoryLimit", 10)
        idle = [each for each in self.revisions if each["metadata"]["name"] not in live]
        for revision in idle[: max(len(idle) - limit, 0)]:
            await self._controller.delete(REVISIONS, revision)
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
        created = await self._controller.create(REVISIONS, revision)
        self.revisions.append(created)
        return created
