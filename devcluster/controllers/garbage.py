"""Garbage collector, and the controller that deletes the content of terminating namespaces."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from devcluster.controllers.client import (
    NAMESPACES,
    PODS,
    Metadata,
    Object,
    OwnerReference,
    ignoring,
    is_going,
    metadata_of,
)
from devcluster.controllers.controller import ANYTHING, Controller, Name, Routes
from devcluster.errors import qualified
from devcluster.kinds import conditions
from devcluster.storage import Change, Key

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
EVENTS = (("", "events"), ("events.k8s.io", "events"))


class GarbageCollector(Controller):
    """Garbage collector, which deletes objects whose owners no longer exist.

    If an owner is deleted with the policy Foreground, the collector deletes the dependents before the owner.
    If an owner is deleted with the policy Orphan, the collector removes the owner from the dependents' owner
    references.
    """

    name = "garbage-collector"

    def routes(self) -> Routes:
        return {ANYTHING: self._on_change}

    async def sync(self, key: Name) -> None:
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
        if waiting and self.view.dependents(self._uid(key)):
            propagation = "Foreground"
            if any(map(self._is_waiting, self.view.dependents(self._uid(key)))):
                await self._unblock_owners(key)
        elif ORPHAN in metadata.finalizers:
            propagation = "Orphan"
        elif FOREGROUND in metadata.finalizers:
            propagation = "Foreground"
        with ignoring("NotFound", "Conflict"):
            await self.client.delete(
                qualified(*key[:2]), key.namespace, key.name, uid=self._uid(key), propagation=propagation
            )

    async def _delete_dependents(self, key: Key) -> None:
        """Queue the dependents of an owner under foreground deletion; release the owner if none blocks it."""
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
        """Remove a deleted owner from its dependents' owner references."""
        uid = self._uid(key)
        for dependent in self.view.dependents(uid):
            await self._drop_owners(dependent, {uid})
            await asyncio.sleep(0)  # other tasks may run here
        await self._finish(key, ORPHAN)

    async def _finish(self, key: Key, finalizer: str) -> None:
        await self._change(key, "finalizers", lambda items: [each for each in items if each != finalizer])

    async def _drop_owners(self, key: Key, uids: set[str]) -> None:
        await self._change(
            key, "ownerReferences", lambda items: [each for each in items if each["uid"] not in uids]
        )

    async def _unblock_owners(self, key: Key) -> None:
        """Clear blockOwnerDeletion in the owner references of an object, to break a cycle of owners."""
        await self._change(
            key, "ownerReferences", lambda items: [{**each, "blockOwnerDeletion": False} for each in items]
        )

    async def _change(self, key: Key, field: str, change: Callable[[list[Any]], list[Any]]) -> None:
        """Replace the list in a metadata field by the result of `change`, if the object exists."""
        obj = self.view.at(key)
        if obj is not None:
            about = obj["metadata"]
            changed = change(about.get(field) or []) or None
            metadata = {field: changed, "resourceVersion": about["resourceVersion"]}
            with ignoring("NotFound"):
                await self.client.patch(qualified(*key[:2]), key.namespace, key.name, {"metadata": metadata})

    def _place(self, dependent: Key, owner: OwnerReference) -> Key | None:
        """Return the owner's key, or None if UID and name do not exist in the namespace or the cluster."""
        place = self.view.find(owner.uid)
        if place is None or place.name != owner.name or place.namespace not in {"", dependent.namespace}:
            return None
        return place

    def _is_waiting(self, owner: Key) -> bool:
        """Return whether an owner is under foreground deletion, and so waits for its dependents."""
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
        """Queue the owners that wait for the deletion of this object."""
        for owner in metadata.owner_references:
            place = self.view.find(owner.uid)
            if place is not None and self._is_waiting(place):
                self.queue.add(place)


FINE = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": (
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
}


class NamespaceController(Controller):
    """Namespace controller, which deletes all objects in terminating namespaces."""

    name = "namespace-controller"
    batch_period = 0.005

    def routes(self) -> Routes:
        return {NAMESPACES: self._on_namespace, ANYTHING: self._on_change}

    async def sync(self, key: Name) -> None:
        name = key[1]
        namespace = self.view.get(NAMESPACES, "", name)
        if namespace is None or not is_going(namespace):
            return
        finalizers = namespace["spec"].get("finalizers") or []
        if "kubernetes" not in finalizers:
            return
        present = self.view.resources_in(name)
        # Until the pods are gone, they may need the namespace's other objects.
        for resource in [PODS] if PODS in present else present:
            await self._delete_all(resource, name)
        namespace = await self._report(namespace, self.view.resources_in(name))
        if not self.view.resources_in(name):
            namespace["spec"]["finalizers"] = [each for each in finalizers if each != "kubernetes"]
            await self.update(NAMESPACES, namespace, subresource="finalize")
        elif PODS in present and PODS not in self.view.resources_in(name):
            self.queue.add(key)

    async def _delete_all(self, resource: tuple[str, str], namespace: str) -> None:
        for stored in self.view.select(resource, namespace):
            metadata = self.view.metadata(stored.key)
            if metadata is not None and metadata.deletion_timestamp:
                continue
            with ignoring("NotFound"):
                await self.client.delete(qualified(*resource), namespace, stored.key.name, uid=stored.uid)
                await asyncio.sleep(0)  # other tasks may run here

    async def _report(self, namespace: Object, remaining: Mapping[tuple[str, str], int]) -> Object:
        now, name = self.clock.timestamp(), namespace["metadata"]["name"]
        status = {**(namespace.get("status") or {})}
        status["conditions"] = [{**each} for each in status.get("conditions") or ()]
        states = {kind: ("False", *fine) for kind, fine in FINE.items()}
        if remaining:
            text = _resources_text(remaining)
            states["NamespaceContentRemaining"] = ("True", "SomeResourcesRemain", text)
        if counts := self._finalizers(remaining, name):
            text = _finalizers_text(counts)
            states["NamespaceFinalizersRemaining"] = ("True", "SomeFinalizersRemain", text)
        for kind, (value, reason, message) in states.items():
            conditions.update_condition({"status": status}, kind, value, reason, message, now)
        return await self.write_status(NAMESPACES, namespace, status)

    def _finalizers(self, remaining: Mapping[tuple[str, str], int], namespace: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for resource in remaining:
            for stored in self.view.select(resource, namespace):
                metadata = self.view.metadata(stored.key)
                found.update(metadata.finalizers if metadata is not None else ())
        return found

    def _on_namespace(self, change: Change) -> None:
        if change.new is not None:
            metadata = self.view.metadata(change.key)
            if metadata is not None and metadata.deletion_timestamp:
                self.queue.add(("", change.key.name))

    def _on_change(self, change: Change) -> None:
        namespace = change.key.namespace
        if not namespace or (change.new is not None and change.old is not None):
            return
        known = self.view.metadata(Key(*NAMESPACES, "", namespace))
        if known is not None and known.deletion_timestamp:
            self.queue.add(("", namespace))


def _resources_text(remaining: Mapping[tuple[str, str], int]) -> str:
    listed = [
        f"{plural}.{group} has {count} resource instances" for (group, plural), count in remaining.items()
    ]
    return f"Some resources are remaining: {', '.join(sorted(listed))}"


def _finalizers_text(counts: Counter[str]) -> str:
    listed = [f"{finalizer} in {count} resource instances" for finalizer, count in counts.items()]
    return f"Some content in the namespace has finalizers remaining: {', '.join(sorted(listed))}"
