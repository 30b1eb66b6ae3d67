"""ControllerRevisions: the templates that a StatefulSet or DaemonSet has had, so that it can go back."""

from __future__ import annotations

import copy
from collections.abc import Collection

from devcluster.controllers.client import Client, Object
from devcluster.controllers.metadata import owner_reference
from devcluster.controllers.template_hash import template_hash
from devcluster.controllers.view import View

__all__ = ["History"]

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
