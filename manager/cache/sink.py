"""The sink, which writes the objects of a watch into the store, and the filter of these objects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from manager.api import ObjectKey
from manager.cache.record import CacheEvent, Meta, Record, RecordDecoder
from manager.cache.store import Store
from manager.kube.errors import ProtocolError


class WatchFilter(Protocol):
    """A filter of the objects of one watch."""

    @property
    def seen(self) -> int:
        """Return the highest known version, which may be above the version of the watch."""

    @property
    def is_empty(self) -> bool:
        """Return whether no list has been read yet."""

    def takes(self, meta: Meta) -> bool:
        """Return whether the filter accepts an object."""

    def knows(self, meta: Meta, version: int) -> bool:
        """Return whether a list that is newer than the watch already contained this version of the object."""

    def query(self) -> Mapping[str, str]:
        """Return the query parameters that select the objects; a server may ignore them."""

    def listed(self) -> None:
        """Record that the requested list is complete."""

    def advanced(self, version: int) -> None:
        """Record that the watch has reached a version."""

    async def run(self) -> None:
        """List and watch the objects that the filter selects, by means of the reflector, until cancelled."""


_KINDS = {"ADDED", "MODIFIED", "DELETED"}


class Sink:
    """The receiver of one namespace's lists and watch events ("" for all); it publishes the changes.

    Not every server applies the filter, so the sink drops rejected objects before it keeps or fully decodes
    them.

    Attributes:
        filter: selects the objects to keep; None for all.
        synced: set when a first list is complete.
        restored: whether to accept the next list even if it contradicts the cached objects, because the
            server's storage was restored from a backup.
    """

    def __init__(
        self,
        store: Store,
        decoder: RecordDecoder,
        namespace: str,
        *,
        publish: Callable[[Sequence[CacheEvent]], None],
    ) -> None:
        self.store = store
        self.decoder = decoder
        self._publish = publish
        self._listed: dict[ObjectKey, Record] = {}
        self.restored = False
        # The highest version of any list, complete or not.
        self._told = 0
        self.namespace = namespace
        self.filter: WatchFilter | None = None
        self.synced = asyncio.Event()

    @property
    def version(self) -> int:
        """Return the version at which a watch can continue; 0 before the first list."""
        return self.store.progress(self.namespace)

    @property
    def seen(self) -> int:
        """Return the highest version that the server has sent; 0 before the first list."""
        return max(self._told, self.version, 0 if self.filter is None else self.filter.seen)

    @property
    def count(self) -> int | None:
        """Return the number of objects that the server should have; None if the cache lacks some of them."""
        return self.store.count(self.namespace) if self.filter is None else None

    def begin_list(self) -> None:
        """Start a list; drop an unfinished one."""
        self._listed = {}

    def list_item(self, raw: msgspec.Raw) -> None:
        """Add one object of the list; raises ProtocolError for an invalid one."""
        arrival = self.decoder.look(raw)
        self._told = max(self._told, arrival.version)
        if self.filter is not None and not self.filter.takes(arrival.meta):
            return
        record, meta = self.decoder.take(arrival)
        held = self.store.records.get(record.key)
        same = held is not None and (held.uid, held.version) == (record.uid, record.version)
        if held is not None and same and not self.restored:
            record = held  # a new list of known objects then needs no memory
        self._listed[record.key] = record
        if not self.synced.is_set():
            # No reader uses the content yet, and publishing each object on arrival spreads the work.
            self._publish(self.store.put(record, meta, initial=True))

    def list_event(self, kind: str, raw: msgspec.Raw) -> None:
        """Process one event of a streaming list; raises ProtocolError as `event` does."""
        if kind == "DELETED":
            # The object was deleted while the server was still sending. The store keeps it until the list is
            # complete, even the first list: if it were removed now, a late answer to one of our own writes
            # could bring it back.
            self._listed.pop(self.decoder.look(raw).key, None)
        elif kind in _KINDS:
            self.list_item(raw)
        else:
            raise ProtocolError(f"a watch event of unknown type {kind!r}")

    def finish_list(self, version: int) -> None:
        """Complete a list at a version: the store then has the listed objects, and our own later writes."""
        listed, self._listed = self._listed, {}
        initial = not self.synced.is_set() if self.filter is None else self.filter.is_empty
        self.synced.set()
        restored, self.restored = self.restored or version < self.seen, False
        changes = self.store.replace(self.namespace, listed, version, restored=restored, initial=initial)
        self._told = version
        self._publish(changes)
        if self.filter is not None:
            self.filter.listed()

    def event(self, kind: str, raw: msgspec.Raw) -> None:
        """Process one event of the watch; raises ProtocolError if it is not about an object."""
        arrival = self.decoder.look(raw)
        taken = self.filter is None or self.filter.takes(arrival.meta)
        changes: Sequence[CacheEvent] = ()
        if kind not in _KINDS:
            raise ProtocolError(f"a watch event of unknown type {kind!r}")
        if not taken or kind == "DELETED":
            # The filter may have accepted the object before, for example with another label.
            if taken or arrival.key in self.store.records:
                changes = self.store.remove(self.decoder.take(arrival)[0])
        # Most events of a converging process repeat its own writes, which the store already has.
        elif (
            self.filter is None or not self.filter.knows(arrival.meta, arrival.version)
        ) and self.store.is_news(arrival.key, arrival.uid, arrival.version):
            changes = self.store.accept(*self.decoder.take(arrival))
        self.store.advance(self.namespace, arrival.version)
        if self.filter is not None:
            self.filter.advanced(arrival.version)
        self._publish(changes)

    def bookmark(self, version: int) -> bool:
        """Record that the watch has sent everything up to a version.

        Returns False if the watch had already reached a higher version: then the objects must be listed
        again.
        """
        if version < self.version:
            return False
        self.store.advance(self.namespace, version)
        if self.filter is not None:
            self.filter.advanced(version)
        return True

    def settle(self, key: ObjectKey, raw: bytes | None) -> None:
        """Store the server's answer about an object of `Store.doubted`; None means that it does not exist."""
        record = None
        if raw is not None:
            arrival = self.decoder.look(raw)
            if self.filter is None or self.filter.takes(arrival.meta):
                record = self.decoder.take(arrival)[0]
        self._publish(self.store.settle(key, record))

    def drop_listed(self) -> None:
        """Remove objects that the filter no longer accepts from the unfinished list."""
        assert self.filter is not None
        self._listed = {
            key: record for key, record in self._listed.items() if self.filter.takes(record.meta())
        }

    def extend(self, listed: Mapping[ObjectKey, Record], version: int) -> None:
        """Add the objects of a separate list, which is complete at `version`; no watch may run meanwhile.

        The watch then continues at its own version or at `version`, whichever is lower.
        """
        assert self.filter is not None
        self.store.advance(self.namespace, min(self.version, version))
        for record in listed.values():
            if self.filter.takes(meta := record.meta()):
                self._publish(self.store.put(record, meta, initial=True))
