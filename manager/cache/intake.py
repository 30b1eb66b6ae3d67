"""The way from one watch into the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from manager.api import ObjectKey
from manager.cache.event import CacheEvent
from manager.cache.record import Record, RecordDecoder
from manager.cache.store import Store
from manager.kube.errors import ProtocolError


class Intake:
    """Takes what is listed and watched in one namespace ("" for all) and tells what changed by it.

    `synced` is set once a first list is complete.
    """

    def __init__(
        self,
        store: Store,
        decoder: RecordDecoder,
        namespace: str,
        *,
        publish: Callable[[Sequence[CacheEvent]], None],
    ) -> None:
        self._store = store
        self._decoder = decoder
        self._publish = publish
        self._listed: dict[ObjectKey, Record] = {}
        # The highest version that a list has shown, complete or not.
        self._told = 0
        self.namespace = namespace
        self.synced = asyncio.Event()

    @property
    def version(self) -> int:
        """The version from which a watch can go on; 0 before the first list."""
        return self._store.progress(self.namespace)

    @property
    def seen(self) -> int:
        """The highest version that the server has told of; 0 before the first list."""
        return max(self._told, self.version)

    def begin_list(self) -> None:
        """Start a list, dropping one that was begun and not finished."""
        self._listed = {}

    def list_item(self, raw: msgspec.Raw) -> None:
        """Take one object of the list; raises ProtocolError when it is not one."""
        record, meta = self._decoder(raw)
        held = self._store.get(record.key)
        if held is not None and (held.uid, held.version) == (record.uid, record.version):
            record = held  # so that a new list of what is already known takes no memory
        self._listed[record.key] = record
        self._told = max(self._told, record.version)
        if not self.synced.is_set():
            # Nobody relies on the content yet, and telling of each object as it comes spreads the work.
            self._publish(self._store.put(record, meta, initial=True))

    def unlist_item(self, raw: msgspec.Raw) -> None:
        """Take back one object of the list, which was deleted; raises ProtocolError when it is not one."""
        # The store shows it until the list is complete, even if that is the first: taken out now, a state in
        # between could bring it back, by a late answer to a write of our own.
        self._listed.pop(self._decoder.look(raw).key, None)

    def finish_list(self, version: int) -> None:
        """The list is complete as of a version: now the store shows it, and nothing else."""
        listed, self._listed = self._listed, {}
        initial = not self.synced.is_set()
        self.synced.set()
        changes = self._store.replace(self.namespace, listed, version, told=self._told, initial=initial)
        self._told = version
        self._publish(changes)

    def event(self, kind: str, raw: msgspec.Raw) -> None:
        """Take one event of the watch; raises ProtocolError when it is not one about an object."""
        arrival = self._decoder.look(raw)
        changes: Sequence[CacheEvent] = ()
        match kind:
            case "ADDED" | "MODIFIED":
                # Most of what a converging process is told are its own writes, which it knows already.
                if self._store.is_news(arrival.key, arrival.uid, arrival.version):
                    changes = self._store.put(*self._decoder.take(arrival))
            case "DELETED":
                changes = self._store.remove(self._decoder.take(arrival)[0])
            case _:
                raise ProtocolError(f"a watch event of unknown type {kind!r}")
        self._store.advance(self.namespace, arrival.version)
        self._publish(changes)

    def bookmark(self, version: int) -> bool:
        """The watch has told all up to a version; False when it had told more before.

        Then the server's history is not the one that was watched: only a list can tell what is.
        """
        if version < self.version:
            return False
        self._store.advance(self.namespace, version)
        return True
