"""The cluster as the controllers see it: the store, with indexes so that nothing scans it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from devcluster.controllers.client import Object
from devcluster.controllers.metadata import Metadata, metadata_of
from devcluster.storage import Change, Key, Store, Stored
from devcluster.storage.selectors import LabelSelector

__all__ = ["View"]

Resource = tuple[str, str]
"""(group, plural)."""

PODS: Resource = ("", "pods")
LABELLED = (PODS, ("apps", "replicasets"))
"""Resources that are indexed by label."""


class View:
    """The controllers' reads, directly from the store, so that a controller sees its own writes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keys: dict[str, Key] = {}
        self._metadata: dict[Key, Metadata] = {}
        self._dependents: defaultdict[str, dict[Key, None]] = defaultdict(dict)
        self._namespaces: defaultdict[str, defaultdict[Resource, int]] = defaultdict(lambda: defaultdict(int))
        self._labelled: defaultdict[tuple[Resource, str, str, str], dict[Key, None]] = defaultdict(dict)

    def load(self) -> Iterator[Stored]:
        """Take in all that is in the store, and yield it."""
        for group, plural in self._store.resources():
            for stored in self._store.select(group, plural):
                self._add(stored)
                yield stored

    def apply(self, change: Change) -> None:
        """Update the indexes by a change of the store."""
        if change.old is not None:
            self._remove(change.old)
        if change.new is not None:
            self._add(change.new)

    # Reading.

    def stored(self, resource: Resource, namespace: str, name: str) -> Stored | None:
        """Return an object as stored, or None."""
        return self._store.get(Key(*resource, namespace, name))

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return a copy of an object, or None."""
        stored = self.stored(resource, namespace, name)
        return None if stored is None else stored.decode()

    def get_key(self, key: Key) -> Object | None:
        """Return a copy of the object with that key, or None."""
        stored = self._store.get(key)
        return None if stored is None else stored.decode()

    def select(self, resource: Resource, namespace: str = "") -> list[Stored]:
        """Return the objects of a resource in one namespace, or in all."""
        return list(self._store.select(*resource, namespace))

    def metadata(self, key: Key) -> Metadata | None:
        """Return the object's owners, finalizers and deletion time; None if it has none, or is missing."""
        return self._metadata.get(key)

    def find(self, uid: str) -> Key | None:
        """Return the key of the object with that UID, or None."""
        return self._keys.get(uid)

    def dependents(self, uid: str) -> list[Key]:
        """Return the keys of the objects that name `uid` as an owner."""
        return list(self._dependents.get(uid, ()))

    def has_dependents(self, uid: str) -> bool:
        """Return whether objects name `uid` as an owner."""
        return uid in self._dependents

    def owned(self, resource: Resource, uid: str) -> list[Object]:
        """Return copies of the objects of a resource that `uid` controls."""
        found = []
        for key in self._dependents.get(uid, ()):
            if key[:2] == resource:
                metadata = self._metadata.get(key)
                manager = metadata.controller if metadata else None
                if manager is not None and manager.uid == uid and (obj := self.get_key(key)) is not None:
                    found.append(obj)
        return found

    def pods(self, namespace: str, selector: Object | None) -> list[Stored]:
        """Return the pods that match a label selector; None matches none, an empty one all."""
        return self.selected(PODS, namespace, selector)

    def selected(self, resource: Resource, namespace: str, selector: Object | None) -> list[Stored]:
        """Return the pods or ReplicaSets that match a label selector; None matches none, an empty one all."""
        if selector is None:
            return []
        matcher = LabelSelector.of(selector)
        exact = selector.get("matchLabels") or {}
        if not exact:
            return [each for each in self.select(resource, namespace) if matcher.matches(each.labels)]
        smallest = min(
            (self._labelled.get((resource, namespace, name, value), {}) for name, value in exact.items()),
            key=len,
        )
        found = (self._store.get(key) for key in sorted(smallest))
        return [each for each in found if each is not None and matcher.matches(each.labels)]

    def resources_in(self, namespace: str) -> dict[Resource, int]:
        """Return the number of objects in a namespace, by resource."""
        return dict(self._namespaces.get(namespace, {}))

    # Indexes.

    def _add(self, stored: Stored) -> None:
        key = stored.key
        self._keys[stored.uid] = key
        if key.namespace:
            self._namespaces[key.namespace][key.group, key.plural] += 1
        metadata = metadata_of(stored)
        if metadata.owner_references or metadata.finalizers or metadata.deletion_timestamp:
            self._metadata[key] = metadata
            for owner in metadata.owner_references:
                self._dependents[owner.uid][key] = None
        if key[:2] in LABELLED:
            for name, value in stored.labels.items():
                self._labelled[key[:2], key.namespace, name, value][key] = None

    def _remove(self, stored: Stored) -> None:
        key = stored.key
        self._keys.pop(stored.uid, None)
        if key.namespace:
            counts = self._namespaces[key.namespace]
            counts[key.group, key.plural] -= 1
            if not counts[key.group, key.plural]:
                del counts[key.group, key.plural]
            if not counts:
                del self._namespaces[key.namespace]
        metadata = self._metadata.pop(key, None)
        if metadata is not None:
            for owner in metadata.owner_references:
                _discard(self._dependents, owner.uid, key)
        if key[:2] in LABELLED:
            for name, value in stored.labels.items():
                _discard(self._labelled, (key[:2], key.namespace, name, value), key)


def _discard(index: dict[Any, dict[Key, None]], entry: Any, key: Key) -> None:
    keys = index.get(entry)
    if keys is not None:
        keys.pop(key, None)
        if not keys:
            del index[entry]
