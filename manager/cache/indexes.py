"""The indexes of one store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial

from manager.api import ObjectKey
from manager.cache.event import CacheEvent
from manager.cache.index import Index, IndexFailed, IndexFunction, KeyGroups
from manager.cache.meta import Meta
from manager.cache.record import Record

__all__ = ["Indexes"]


class Indexes:
    """Finds keys by namespace, owner, label, or an operator's own function.

    An index is built when it is first asked for, at the cost of one pass over the store, and kept current
    from then on: what nobody asks for costs nothing.
    """

    def __init__(self, records: Mapping[ObjectKey, Record], failed: IndexFailed) -> None:
        """`failed` is told what an operator's function raised, and on which object."""
        self._records = records
        self._failed = failed
        self._indexes: dict[str, Index] = {}
        # Apart from the others, because it needs no look at the object: the namespace is in the key.
        self._namespaces: KeyGroups | None = None

    def add(self, name: str, function: IndexFunction) -> None:
        """Register an index; again with the same function is no change.

        Raises ValueError when the name is taken by another function.
        """
        known = self._indexes.get(f"own {name}")
        if known is None:
            self._build(f"own {name}", function)
        elif known.function != function:
            raise ValueError(f"there is already an index {name!r} with another function")

    def narrow(
        self,
        *,
        namespace: str | None,
        labels: Mapping[str, str] | None,
        owner_uid: str | None,
        index: tuple[str, str] | None,
    ) -> list[Collection[ObjectKey]]:
        """For each condition that an index answers, the keys that meet it.

        Raises KeyError when no index of that name is registered.
        """
        found = []
        if index is not None:
            name, value = index
            if f"own {name}" not in self._indexes:
                raise KeyError(f"no index {name!r} is registered")
            found.append(self._indexes[f"own {name}"].keys(value))
        if owner_uid is not None:
            owners = self._indexes.get("owner") or self._build("owner", _owners)
            found.append(owners.keys(owner_uid))
        for label, value in (labels or {}).items():
            name = f"label {label}"
            known = self._indexes.get(name) or self._build(name, partial(_label, label))
            found.append(known.keys(value))
        if namespace is not None:
            found.append(self._in_namespace(namespace))
        return found

    def changed(self, event: CacheEvent) -> None:
        """Follow a change of the store."""
        if self._namespaces is not None and event.old is None:
            self._namespaces.add(event.key.namespace, event.key)
        elif self._namespaces is not None and event.new is None:
            self._namespaces.discard(event.key.namespace, event.key)
        for index in self._indexes.values():
            match event.old, event.new:
                case None, Record() as new:
                    index.insert(new, event.meta)
                case Record() as old, None:
                    index.remove(old, event.meta)
                case Record() as old, Record() as new:
                    assert event.old_meta is not None
                    index.update(old, event.old_meta, new, event.meta)

    def _in_namespace(self, namespace: str) -> Collection[ObjectKey]:
        if self._namespaces is None:
            self._namespaces = KeyGroups()
            for key in self._records:
                self._namespaces.add(key.namespace, key)
        return self._namespaces.keys(namespace)

    def _build(self, name: str, function: IndexFunction) -> Index:
        index = self._indexes[name] = Index(name.removeprefix("own "), function, self._failed)
        for record in self._records.values():
            index.insert(record, record.meta())
        return index


def _owners(_: Record, meta: Meta) -> Iterable[str]:
    return [owner.uid for owner in meta.owner_references]


def _label(key: str, _: Record, meta: Meta) -> Iterable[str]:
    value = meta.labels.get(key)
    return () if value is None else (value,)
