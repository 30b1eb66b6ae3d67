"""What is known of the objects of one kind, and how it may change.

Everything here rests on two facts. Versions grow: of two states of an object the one with the higher
resourceVersion is the later one, whichever way it came. And a watch leaves nothing out: once it has reached
a version (the store's progress), every change up to it has been told.

So the answer to a write of our own is taken as an event like any other, and is told at once; the watch event
that follows has the same version and is dropped. A write whose answer is no newer than the progress, of an
object that is not held, was deleted since; and a list that is older than a write neither undoes nor hides
it, because the watch that goes on from that list will tell of it.

The first does not hold for an object that we have deleted and that a restored backup brings back: it is the
same object, of whose end no watch will tell. So what arrives of a deleted object is doubted, until its end is
told or who follows the server has asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from operator import attrgetter
from typing import NamedTuple

from manager.api import ObjectKey
from manager.cache.event import CacheEvent
from manager.cache.index import Indexes, IndexFailed, IndexFunction
from manager.cache.record import Meta, Record
from manager.cache.spec import Requirement, Selector

# Names of which old news is refused. More than a watch can lag behind; forgetting one too early shows an
# object for a moment that we have deleted.
FLOORS = 10_000


class _Floor(NamedTuple):
    """Which news of a name is old while nothing is held: all up to a version, all of a deleted object."""

    version: int
    deleted: str = ""

    def refuses(self, uid: str, version: int) -> bool:
        return version <= self.version or uid == self.deleted


class Store:
    """Records by key, with indexes. Whatever changes it returns the events to tell, already applied.

    `selector` is the label selector of what belongs in here. `filtered` says that the server applies a field
    selector too, which cannot be judged here: then a write changes what is held, and never adds to it.
    """

    def __init__(
        self,
        *,
        selector: Selector | None = None,
        filtered: bool = False,
        index_failed: IndexFailed = lambda *_: None,
    ) -> None:
        """`index_failed` is told what an index function raised, and on which object."""
        self._records: dict[ObjectKey, Record] = {}
        self._indexes = Indexes(self._records, index_failed)
        self._selector = selector or Selector()
        self._filtered = filtered
        self._bytes = 0
        # How far the watch of each namespace has come; "" is the watch of all namespaces.
        self._progress: dict[str, int] = {}
        self._floors: dict[ObjectKey, _Floor] = {}
        # Deleted objects, by their UIDs, of which something has arrived, and not yet the end.
        self._doubted: dict[ObjectKey, str] = {}

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records.values())

    @property
    def bytes(self) -> int:
        """Bytes of JSON held."""
        return self._bytes

    def get(self, key: ObjectKey) -> Record | None:
        """Return the record of an object, or None."""
        return self._records.get(key)

    def count(self, namespace: str) -> int:
        """Return the number of objects in a namespace, or in all for ""."""
        return len(self.select(namespace=namespace)) if namespace else len(self._records)

    def newest(self, namespace: str, most: int) -> list[tuple[ObjectKey, int]]:
        """Return keys and versions of the `most` newest objects of a namespace ("" for all), newest first."""
        records = self.select(namespace=namespace) if namespace else self._records.values()
        return [(each.key, each.version) for each in nlargest(most, records, key=attrgetter("version"))]

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Register an index for `select`; see `Indexes.add`."""
        self._indexes.add(name, function)

    async def prepare(self, *, labels: Iterable[str] = (), owners: bool = False) -> None:
        """Have `select` by these cost no pass over all records; others have their turn meanwhile."""
        await self._indexes.prepare(labels=labels, owners=owners)

    def select(
        self,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | Selector | None = None,
        owner_uid: str | None = None,
        index: tuple[str, str] | None = None,
    ) -> list[Record]:
        """Return the records that meet every condition, in the order of their keys.

        `labels` is a map of labels that must be equal, or a selector. Costs what the most selective condition
        lets through. Only `!=`, `in`, `notin` and the existence of a label are not answered by an index, but
        by a look at each record that is left.
        """
        rest: tuple[Requirement, ...] = ()
        if isinstance(labels, Selector):
            labels, rest = labels.split()
        narrowed = self._indexes.narrow(namespace=namespace, labels=labels, owner_uid=owner_uid, index=index)
        if narrowed:
            if not all(narrowed):
                return []
            fewest, *others = sorted(narrowed, key=len)
            keys = sorted(key for key in fewest if all(key in other for other in others))
        else:
            keys = sorted(self._records)
        # An index function that fails on an object now and then may leave a key behind.
        records = [record for key in keys if (record := self._records.get(key)) is not None]
        if not rest:
            return records
        others_of_labels = Selector(rest)
        return [record for record in records if others_of_labels.matches(record.meta().labels)]

    # What the watch and the lists say.

    def progress(self, namespace: str) -> int:
        """The version up to which the watch of a namespace ("" for that of all) has told everything, or 0."""
        return self._progress.get(namespace, 0)

    def advance(self, namespace: str, version: int) -> None:
        """Note that the watch has reached a version."""
        self._progress[namespace] = version

    def put(self, record: Record, meta: Meta | None = None, *, initial: bool = False) -> Sequence[CacheEvent]:
        """Take in a state of an object, unless it is no news."""
        if not self.is_news(record.key, record.uid, record.version):
            return ()
        return self._exchange(self._records.get(record.key), record, meta, initial=initial)

    def is_news(self, key: ObjectKey, uid: str, version: int) -> bool:
        """Whether `put` would take in this state of an object."""
        if self._refuses(key, uid, version):
            return False
        held = self._records.get(key)
        return held is None or version > held.version

    def remove(self, record: Record) -> Sequence[CacheEvent]:
        """Take in that an object went, or left the selection, in this last state."""
        held = self._records.get(record.key)
        if held is None:
            floor = self._floors.get(record.key)
            # It went for good, so no more news of it will come. (Where things are selected, it may only have
            # left the selection.)
            if floor is not None and floor.deleted == record.uid:
                self._doubted.pop(record.key, None)
                if not self._selective:
                    del self._floors[record.key]
            return ()
        if record.version < held.version and (not self._filtered or held.uid != record.uid):
            return ()  # we wrote it since
        return (self._drop(held),)

    def replace(
        self,
        namespace: str,
        listed: Mapping[ObjectKey, Record],
        version: int,
        *,
        restored: bool = False,
        initial: bool = False,
    ) -> Sequence[CacheEvent]:
        """Bring a namespace ("" for all) to what was listed at a version, in one step.

        With `restored`, or a version that is lower than the watch's, the server's storage was restored from a
        backup: what is held is of a history that did not happen, and says nothing against the list.
        """
        events: list[CacheEvent] = []
        restored = restored or version < self.progress(namespace)
        # Most of a list is held already when it ends, and nobody has a turn while it is gone through.
        news = [record for key, record in listed.items() if self._records.get(key) is not record]
        gone: Sequence[Record] = ()
        if len(self._records) > len(listed) - len(news):
            gone = [held for key, held in self._records.items() if key not in listed]
        for held in gone:
            if namespace and held.key.namespace != namespace:
                continue
            if held.version <= version or restored or self._filtered:
                events.append(self._drop(held))
        if restored:
            self._floors.clear()
            self._doubted.clear()
        for record in news:
            known = self._records.get(record.key)
            floor = self._floors.get(record.key)
            if floor is not None and record.uid != floor.deleted and floor.version < version:
                del self._floors[record.key]
            # A list knows every change up to its own version, so a later state that is not in it never was.
            if (
                known is not None
                and known.raw != record.raw
                and (restored or record.version < known.version <= version)
            ):
                events += self._exchange(known, record, None, initial=initial)
            else:
                events += self.put(record, initial=initial)
        self._progress[namespace] = version
        return events

    def doubted(self, namespace: str) -> set[tuple[ObjectKey, str]]:
        """Deleted objects of a namespace ("" for all), with their UIDs, of which something has arrived."""
        return {each for each in self._doubted.items() if not namespace or each[0].namespace == namespace}

    def settle(self, key: ObjectKey, record: Record | None) -> Sequence[CacheEvent]:
        """Take in what the server has, when asked, in the place of a doubted object; None is nothing."""
        uid = self._doubted.pop(key, "")
        if record is None:
            return ()
        if (floor := self._floors.get(key)) is not None and floor.deleted == uid == record.uid:
            del self._floors[key]
        return self.put(record)

    def hand_over(self, gone: Iterable[Record]) -> Sequence[CacheEvent]:
        """Let go of what somebody else is to know from now on; it may come back in any state."""
        return [self._change(record, None, handed_over=True) for record in gone]

    # What our own writes say.

    def observe_write(self, record: Record, meta: Meta) -> Sequence[CacheEvent]:
        """Take in the state that a write of ours led to."""
        if self._refuses(record.key, record.uid, record.version):
            return ()
        if not self._selector.matches(meta.labels):
            return self._leave(record)
        held = self._records.get(record.key)
        if held is None and record.version <= self._reached(record.key):
            return ()
        if self._filtered and (held is None or held.uid != record.uid):
            return ()
        return self.put(record, meta)

    def observe_deletion(self, key: ObjectKey, uid: str, version: int = 0) -> Sequence[CacheEvent]:
        """Take in that a write of ours removed an object; nothing that arrives late brings it back.

        `version` is one that the object had, where that is known.
        """
        held = self._records.get(key)
        if held is not None and held.uid != uid and held.version > version:
            return ()  # another one has the name by now
        self._raise_floor(key, _Floor(max(version, held.version if held else 0), uid))
        return () if held is None else (self._change(held, None),)

    def _leave(self, record: Record) -> Sequence[CacheEvent]:
        """Take in that a write of ours took an object out of the selection."""
        held = self._records.get(record.key)
        if held is not None and held.version >= record.version:
            return ()
        if record.version > self._reached(record.key):
            # States in between, in which it still matched, may yet arrive.
            self._raise_floor(record.key, _Floor(record.version))
        return () if held is None else (self._change(held, None),)

    def _reached(self, key: ObjectKey) -> int:
        return self._progress.get("") or self._progress.get(key.namespace, 0)

    @property
    def _selective(self) -> bool:
        return self._filtered or bool(self._selector.requirements)

    def _refuses(self, key: ObjectKey, uid: str, version: int) -> bool:
        floor = self._floors.get(key)
        if floor is None or not floor.refuses(uid, version):
            return False
        if uid == floor.deleted:
            self._doubted[key] = uid
        return True

    def _raise_floor(self, key: ObjectKey, floor: _Floor) -> None:
        # Put back at the end, so that the first to be forgotten is the oldest.
        before = self._floors.pop(key, floor)
        self._floors[key] = floor._replace(version=max(floor.version, before.version))
        if len(self._floors) > FLOORS:
            oldest = next(iter(self._floors))
            del self._floors[oldest]
            self._doubted.pop(oldest, None)

    def _drop(self, held: Record) -> CacheEvent:
        """Take out what the server says is not in the selection."""
        if self._filtered:
            # The server may have said so before it got our last write, and whether that brought the object
            # back is not to be judged here. If it did, the watch will tell of the very version that we
            # wrote; until then nothing older may show.
            self._raise_floor(held.key, _Floor(held.version - 1))
        return self._change(held, None)

    # The only places where records change.

    def _exchange(
        self, held: Record | None, record: Record, meta: Meta | None, *, initial: bool
    ) -> Sequence[CacheEvent]:
        if held is None or held.uid == record.uid:
            return (self._change(held, record, meta, initial=initial),)
        # Another object under the same name: nobody should take the one for a change of the other.
        return (self._change(held, None), self._change(None, record, meta, initial=initial))

    def _change(
        self,
        old: Record | None,
        new: Record | None,
        meta: Meta | None = None,
        *,
        initial: bool = False,
        handed_over: bool = False,
    ) -> CacheEvent:
        event = CacheEvent(old, new, meta=meta, initial=initial, handed_over=handed_over)
        if old is not None:
            self._bytes -= len(old.raw)
        if new is not None:
            if old is not None:
                # The store and its indexes hold on to these already.
                new.key, new.uid = old.key, old.uid
            self._bytes += len(new.raw)
            self._records[new.key] = new
        elif old is not None:
            del self._records[old.key]
        self._indexes.changed(event)
        return event
