"""Garbage collection: dependents are deleted with or before their owner, or orphaned."""

from __future__ import annotations

from devcluster.controllers.client import Object
from devcluster.controllers.controller import ANYTHING, Controller, Name, Routes
from devcluster.controllers.metadata import Metadata, OwnerReference, metadata_of, resource_of
from devcluster.errors import StatusError
from devcluster.storage import Change, Key

__all__ = ["GarbageCollector"]

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
NOT_FOUND, CONFLICT = 404, 409
EVENTS = (("", "events"), ("events.k8s.io", "events"))


class GarbageCollector(Controller):
    """The garbage collector, which deletes objects without owners, and handles ownership in deletions."""

    name = "garbage-collector"

    def routes(self) -> Routes:
        """Return the handler of changes of all resources, since any object can be an owner."""
        return {ANYTHING: self._on_change}

    async def sync(self, key: Name) -> None:
        """Process one object."""
        at = Key(*key)
        metadata = self.view.metadata(at)
        if metadata is None:
            return
        if not metadata.deletion_timestamp:
            await self._check_owners(at, metadata)
        elif FOREGROUND in metadata.finalizers:
            await self._delete_dependents(at)
        elif ORPHAN in metadata.finalizers:
            await self._release_dependents(at)

    async def _check_owners(self, key: Key, metadata: Metadata) -> None:
        solid, gone, waiting = [], [], []
        for owner in metadata.owner_references:
            place = self._place(key, owner)
            if place is None:
                gone.append(owner)
            elif self._is_waiting(place):
                waiting.append(owner)
            else:
                solid.append(owner)
        if not gone and not waiting:
            return
        if solid:
            await self._drop_owners(key, {owner.uid for owner in (*gone, *waiting)})
            return
        propagation = "Background"
        if waiting and self.view.has_dependents(self._uid(key)):
            propagation = "Foreground"
            if any(map(self._is_waiting, self.view.dependents(self._uid(key)))):
                await self._unblock_owners(key)
        elif ORPHAN in metadata.finalizers:
            propagation = "Orphan"
        elif FOREGROUND in metadata.finalizers:
            propagation = "Foreground"
        try:
            await self.client.delete(
                resource_of(key), key.namespace, key.name, uid=self._uid(key), propagation=propagation
            )
        except StatusError as error:
            if error.code not in {NOT_FOUND, CONFLICT}:
                raise

    async def _delete_dependents(self, key: Key) -> None:
        """Delete the dependents of an owner that is deleted in the foreground."""
        uid, blocked = self._uid(key), False
        for dependent in self.view.dependents(uid):
            metadata = self.view.metadata(dependent)
            if metadata is None:
                continue
            blocked |= any(
                owner.uid == uid and owner.block_owner_deletion for owner in metadata.owner_references
            )
            if not metadata.deletion_timestamp:
                self.queue.add(dependent)
        if not blocked:
            await self._finish(key, FOREGROUND)

    async def _release_dependents(self, key: Key) -> None:
        """Remove the owner reference from the dependents of an orphaning owner."""
        uid = self._uid(key)
        for dependent in self.view.dependents(uid):
            await self._drop_owners(dependent, {uid})
        await self._finish(key, ORPHAN)

    async def _finish(self, key: Key, finalizer: str) -> None:
        obj = self.view.get_key(key)
        if obj is not None:
            kept = [each for each in obj["metadata"].get("finalizers") or () if each != finalizer]
            await self._patch(key, obj, {"finalizers": kept or None})

    async def _drop_owners(self, key: Key, uids: set[str]) -> None:
        obj = self.view.get_key(key)
        if obj is not None:
            references = obj["metadata"].get("ownerReferences") or ()
            kept = [each for each in references if each["uid"] not in uids]
            await self._patch(key, obj, {"ownerReferences": kept or None})

    async def _unblock_owners(self, key: Key) -> None:
        """Let the owners go before this object, since a dependent waits for its own dependents: a circle."""
        obj = self.view.get_key(key)
        if obj is not None:
            references = obj["metadata"].get("ownerReferences") or ()
            free = [{**each, "blockOwnerDeletion": False} for each in references]
            await self._patch(key, obj, {"ownerReferences": free})

    async def _patch(self, key: Key, obj: Object, changed: Object) -> None:
        metadata = {**changed, "resourceVersion": obj["metadata"]["resourceVersion"]}
        try:
            await self.client.patch(resource_of(key), key.namespace, key.name, {"metadata": metadata})
        except StatusError as error:
            if error.code != NOT_FOUND:
                raise

    def _place(self, dependent: Key, owner: OwnerReference) -> Key | None:
        """Return the owner's key; None if the UID's object has another name or namespace."""
        place = self.view.find(owner.uid)
        if place is None or place.name != owner.name or place.namespace not in {"", dependent.namespace}:
            return None
        return place

    def _is_waiting(self, owner: Key) -> bool:
        """Return whether an owner waits for its dependents' deletion."""
        metadata = self.view.metadata(owner)
        return (
            metadata is not None and bool(metadata.deletion_timestamp) and FOREGROUND in metadata.finalizers
        )

    def _uid(self, key: Key) -> str:
        stored = self.view.stored((key.group, key.plural), key.namespace, key.name)
        return "" if stored is None else stored.uid

    def _on_change(self, change: Change) -> None:
        if change.key[:2] in EVENTS:
            return
        new, old = change.new, change.old
        if new is None:
            if old is not None:
                self._on_removal(old.uid, metadata_of(old))
            return
        metadata = self.view.metadata(change.key)
        if metadata is None:
            return
        if metadata.deletion_timestamp:
            if FOREGROUND in metadata.finalizers or ORPHAN in metadata.finalizers:
                self.queue.add(change.key)
        elif metadata.owner_references and (
            old is None or metadata_of(old).owner_references != metadata.owner_references
        ):
            self.queue.add(change.key)
            if old is not None:
                self._wake_owners(metadata_of(old))

    def _on_removal(self, uid: str, metadata: Metadata) -> None:
        for dependent in self.view.dependents(uid):
            self.queue.add(dependent)
        self._wake_owners(metadata)

    def _wake_owners(self, metadata: Metadata) -> None:
        """Queue owners that wait for this object's deletion."""
        for owner in metadata.owner_references:
            place = self.view.find(owner.uid)
            if place is not None and self._is_waiting(place):
                self.queue.add(place)
