"""The way from one watch into the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import msgspec

from manager.api import ObjectKey
from manager.cache.division import Division
from manager.cache.event import CacheEvent
from manager.cache.record import Arrival, Meta, Record, RecordDecoder
from manager.cache.store import Store
from manager.kube.errors import ProtocolError
from manager.shards.ranges import Ranges


class Intake:
    """Takes what is listed and watched in one namespace ("" for all) and tells what changed by it.

    `synced` is set once a first list is complete.

    With `division`, only objects of some `ranges` are taken in, and what arrives of others is dropped before
    any of it is kept, or more than its metadata decoded: not every server leaves it out. Which ranges these
    are may change; `known` are those of which all has been listed.
    """

    def __init__(
        self,
        store: Store,
        decoder: RecordDecoder,
        namespace: str,
        *,
        publish: Callable[[Sequence[CacheEvent]], None],
        division: Division | None = None,
        ranges: Ranges | None = None,
        learned: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self.decoder = decoder
        self._publish = publish
        self._learned = learned
        self._listed: dict[ObjectKey, Record] = {}
        self._restored = False
        # The highest version that a list has shown, complete or not.
        self._told = 0
        # Ranges, by number, of which more is known than the watch has told: up to which version.
        self._ahead: dict[int, int] = {}
        self.namespace = namespace
        self.synced = asyncio.Event()
        self.division = division
        self.ranges = ranges
        self.known = frozenset[int]()

    @property
    def version(self) -> int:
        """The version from which a watch can go on; 0 before the first list."""
        return self._store.progress(self.namespace)

    @property
    def seen(self) -> int:
        """The highest version that the server has told of; 0 before the first list."""
        return max(self._told, self.version, *self._ahead.values())

    @property
    def count(self) -> int | None:
        """The number of objects that the server should have; None if only those of some shards are held."""
        if self.division is not None and self.ranges is not None:
            return None
        return self._store.count(self.namespace)

    def newest(self, most: int) -> list[tuple[ObjectKey, int]]:
        """Return keys and versions of the `most` objects that changed last, the latest first."""
        return self._store.newest(self.namespace, most)

    def takes(self, meta: Meta) -> bool:
        """Whether an object is one of those that are taken in."""
        return self.division is None or self.ranges is None or self.division.takes(meta, self.ranges)

    def distrust(self) -> None:
        """Believe the next list against all that is held: the server's storage was restored from a backup."""
        self._restored = True

    def begin_list(self) -> None:
        """Start a list, dropping one that was begun and not finished."""
        self._listed = {}

    def list_item(self, raw: msgspec.Raw) -> None:
        """Take one object of the list; raises ProtocolError when it is not one."""
        arrival = self.decoder.look(raw)
        self._told = max(self._told, arrival.version)
        if not self.takes(arrival.meta):
            return
        record, meta = self.decoder.take(arrival)
        held = self._store.get(record.key)
        same = held is not None and (held.uid, held.version) == (record.uid, record.version)
        if held is not None and same and not self._restored:
            record = held  # so that a new list of what is already known takes no memory
        self._listed[record.key] = record
        if not self.synced.is_set():
            # Nobody relies on the content yet, and telling of each object as it comes spreads the work.
            self._publish(self._store.put(record, meta, initial=True))

    def unlist_item(self, raw: msgspec.Raw) -> None:
        """Take back one object of the list, which was deleted; raises ProtocolError when it is not one."""
        # The store shows it until the list is complete, even if that is the first: taken out now, a state in
        # between could bring it back, by a late answer to a write of our own.
        self._listed.pop(self.decoder.look(raw).key, None)

    def finish_list(self, version: int) -> None:
        """The list is complete as of a version: now the store shows it, and nothing else."""
        listed, self._listed = self._listed, {}
        initial = not self.synced.is_set() if self.ranges is None else not self.known
        self.synced.set()
        restored, self._restored = self._restored or version < self.seen, False
        changes = self._store.replace(self.namespace, listed, version, restored=restored, initial=initial)
        self._told = version
        self._ahead.clear()
        self._publish(changes)
        if self.ranges is not None:
            self.known = self.ranges.numbers
            self._learned()

    def event(self, kind: str, raw: msgspec.Raw) -> None:
        """Take one event of the watch; raises ProtocolError when it is not one about an object."""
        arrival = self.decoder.look(raw)
        changes: Sequence[CacheEvent] = ()
        match kind:
            case "ADDED" | "MODIFIED":
                if not self.takes(arrival.meta):
                    changes = self._lose(arrival)
                # Most of what a converging process is told are its own writes, which it knows already.
                elif not self._is_ahead(arrival) and self._store.is_news(
                    arrival.key, arrival.uid, arrival.version
                ):
                    changes = self._store.put(*self.decoder.take(arrival))
            case "DELETED":
                if self.takes(arrival.meta):
                    changes = self._store.remove(self.decoder.take(arrival)[0])
                else:
                    changes = self._lose(arrival)
            case _:
                raise ProtocolError(f"a watch event of unknown type {kind!r}")
        self._advance(arrival.version)
        self._publish(changes)

    def bookmark(self, version: int) -> bool:
        """The watch has told all up to a version; False when it had told more before.

        Then the server's history is not the one that was watched: only a list can tell what is.
        """
        if version < self.version:
            return False
        self._advance(version)
        return True

    # Objects that we have deleted, and of which the server goes on to tell.

    def doubted(self) -> set[tuple[ObjectKey, str]]:
        """Those of which something has arrived, and not their end, with their UIDs."""
        return self._store.doubted(self.namespace)

    def settle(self, key: ObjectKey, raw: bytes | None) -> None:
        """Take what the server has of that name, when asked; None is nothing."""
        record = None
        if raw is not None and self.takes((arrival := self.decoder.look(raw)).meta):
            record = self.decoder.take(arrival)[0]
        self._publish(self._store.settle(key, record))

    # Ranges that change.

    def leave(self, ranges: Ranges) -> None:
        """Take in nothing any more but of these; the informer lets go of what is held of others."""
        assert self.ranges is not None
        self.ranges &= ranges
        self.known &= ranges.numbers
        self._listed = {key: record for key, record in self._listed.items() if self.takes(record.meta())}

    def restart(self, ranges: Ranges) -> None:
        """Take in what there is of these, of which a new list is about to tell."""
        self.ranges = ranges

    def extend(self, ranges: Ranges, listed: Mapping[ObjectKey, Record], version: int) -> None:
        """Take in these as well, of which all was listed as of a version. Nothing may be watched meanwhile.

        The watch is to go on from where both the list and what was watched so far are complete. What it tells
        of again until then is not taken for news: an object that is gone would be there for a moment.
        """
        assert self.ranges is not None
        reached = self.version
        self._ahead |= {number: max(reached, self._ahead.get(number, 0)) for number in self.known}
        self._ahead |= dict.fromkeys(ranges.numbers, version)
        self.ranges |= ranges
        self.known |= ranges.numbers
        self._store.advance(self.namespace, min(reached, version))
        for record in listed.values():
            if self.takes(meta := record.meta()):
                self._publish(self._store.put(record, meta, initial=True))
        self._learned()

    def _lose(self, arrival: Arrival) -> Sequence[CacheEvent]:
        """Take in that an object is not, or no longer, one of those that are taken in."""
        if self._store.get(arrival.key) is None:
            return ()
        return self._store.remove(self.decoder.take(arrival)[0])

    def _is_ahead(self, arrival: Arrival) -> bool:
        if not self._ahead or self.ranges is None or self.division is None:
            return False
        number = self.division.number_of(arrival.meta, self.ranges)
        return number is not None and arrival.version <= self._ahead.get(number, 0)

    def _advance(self, version: int) -> None:
        self._store.advance(self.namespace, version)
        if self._ahead and version >= max(self._ahead.values()):
            self._ahead.clear()
