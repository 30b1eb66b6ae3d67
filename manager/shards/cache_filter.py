"""Filter by which a cache holds only the objects of this replica's shards, which change over time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec

from manager.api import GroupVersionKind, ObjectKey
from manager.cache import Cache, CacheEvent, Informer, Meta, Record
from manager.cache.reflector import Reflector
from manager.cache.sink import Sink
from manager.cache.store import Store
from manager.shards.ranges import Ranges, label_of, label_of_part, part_of, part_of_uid

PARTS = "part"
"""The index by parts of all ranges, as a label has them: the objects of some ranges are found by it."""

NARROW_AFTER = 5.0
"""Ranges are given up one by one. Seconds for which other replicas' objects may arrive; they are dropped."""


class Division:
    """Assignment of one kind's objects to shards."""

    of_children = False

    def part_of(self, meta: Meta) -> int | None:
        """Return the hash slice of an object (see `part_of_uid`); None if it has none."""
        raise NotImplementedError

    def index(self, record: Record, meta: Meta) -> Iterable[str]:
        """Return the values of the index `PARTS`."""
        raise NotImplementedError

    def query(self, ranges: Ranges) -> dict[str, str]:
        """Return the query parameters for the objects of these shards; the server may send others too."""
        raise NotImplementedError

    def takes(self, meta: Meta, ranges: Ranges) -> bool:
        """Return whether an object is in one of these shards."""
        return self.number_of(meta, ranges) in ranges.numbers

    def number_of(self, meta: Meta, ranges: Ranges) -> int | None:
        """Return the number of an object's shard, one of these or another; None if it has none."""
        part = self.part_of(meta)
        return None if part is None else ranges.number_of_part(part)


class ByUid(Division):
    """Assignment of the operators' objects by their own UIDs, which some servers can select by."""

    def part_of(self, meta: Meta) -> int | None:
        """Return the hash slice of the object's UID."""
        return part_of_uid(meta.uid)

    @staticmethod
    def index(record: Record, meta: Meta) -> Iterable[str]:  # noqa: ARG004 - as every index function
        """Return the hash slice of the object's UID as a label value."""
        return (label_of(record.uid),)

    def query(self, ranges: Ranges) -> dict[str, str]:
        """Return a selector that some servers ignore."""
        return {"shardSelector": ranges.selector}


class ByOwner(Division):
    """Assignment of children by the label with their owner's hash slice, or else by the owner reference.

    The label takes precedence because the server selects by it, so the cache holds the objects that the watch
    sends. An object without the label and without an owner of a kind added with `add` is in no shard.
    """

    of_children = True

    def __init__(self, label: str) -> None:
        """Set the key of the label."""
        self._label = label
        self._owners: set[tuple[str, str]] = set()

    def add(self, owner: GroupVersionKind) -> None:
        """Include children whose owners are of that kind."""
        self._owners.add((owner.group, owner.kind))

    def part_of(self, meta: Meta) -> int | None:
        """Return the hash slice that the label names, or the slice of the owner's UID."""
        label = meta.labels.get(self._label)
        if label is not None and (part := part_of(label)) is not None:
            return part
        controller = meta.controller
        if controller is None:
            return None
        group, _, _ = controller.api_version.rpartition("/")
        return part_of_uid(controller.uid) if (group, controller.kind) in self._owners else None

    def index(self, record: Record, meta: Meta) -> Iterable[str]:  # noqa: ARG002 - as every index function
        """Return the hash slice as a label value."""
        part = self.part_of(meta)
        return () if part is None else (label_of_part(part),)

    def query(self, ranges: Ranges) -> dict[str, str]:
        """Return a selector that excludes the labels of other shards, so it includes unlabelled objects."""
        others = ranges.others.labels
        return {"labelSelector": f"{self._label} notin ({','.join(others)})" if others else ""}


class ShardFilters:
    """Restriction of a cache's filtered informers to the objects of some shards and their children."""

    def __init__(self, cache: Cache, *, label: str) -> None:
        """Create the filters; `label` is the key of the label with the owner's hash slice."""
        self._cache = cache
        self._label = label
        self._ranges: Ranges | None = None
        self._when_learned: list[Callable[[], None]] = []

    def restrict(self, ranges: Ranges) -> None:
        """Hold only the objects of these shards; see `ShardFilter.restrict`."""
        self._ranges = ranges
        self._cache.make_filter = self._make
        for each in self._filters():
            each.restrict(ranges)

    def knows(self, number: int) -> bool:
        """Return whether all filtered informers have listed the objects of a shard."""
        return all(each.knows(number) for each in self._filters())

    def when_learned(self, call: Callable[[], None]) -> None:
        """Call the function whenever an informer has listed more shards."""
        self._when_learned.append(call)

    async def wait_synced(self) -> None:
        """Wait until all objects that do not depend on shards have been listed."""
        await self._cache.wait_synced()

    def _filters(self) -> Iterator[ShardFilter]:
        return (each.filter for each in self._cache.informers if isinstance(each.filter, ShardFilter))

    def _make(self, of_children: bool) -> ShardFilter:
        assert self._ranges is not None
        division = ByOwner(self._label) if of_children else ByUid()
        return ShardFilter(division, self._ranges, learned=self._has_learned)

    def _has_learned(self) -> None:
        for call in self._when_learned:
            call()


def knows(informer: Informer, number: int) -> bool:
    """Return whether an informer has listed all objects of a shard that it will hold."""
    return not isinstance(informer.filter, ShardFilter) or informer.filter.knows(number)


def records_in(informer: Informer, ranges: Ranges) -> list[Record]:
    """Return the records of the objects in these shards; the informer needs the index `PARTS`."""
    return [record for part in ranges.labels for record in informer.list(index=(PARTS, part))]


class ShardFilter:
    """`manager.cache.ObjectFilter` for the objects of a changing set of shards."""

    def __init__(
        self, division: Division, ranges: Ranges, *, learned: Callable[[], None] = lambda: None
    ) -> None:
        """Create a filter; `learned` is called whenever more shards have been listed."""
        self.division = division
        self.of_children = division.of_children
        self.ranges = ranges
        self.watches: list[ShardWatch] = []
        self._learned = learned
        self._store: Store
        self._publish: Callable[[Sequence[CacheEvent]], None]

    def attach(self, store: Store, publish: Callable[[Sequence[CacheEvent]], None]) -> None:
        """See `ObjectFilter.attach`."""
        self._store, self._publish = store, publish
        store.indexes.add(PARTS, self.division.index)

    def of_watch(self, sink: Sink, reflector: Reflector) -> ShardWatch:
        """See `ObjectFilter.of_watch`."""
        watch = ShardWatch(self.division, self.ranges, sink, reflector, self._learned)
        self.watches.append(watch)
        return watch

    def restrict(self, ranges: Ranges) -> None:
        """Hold only the objects of these shards: drop others at once, and list new ones.

        Subscribers receive dropped objects as `handed_over`, and not as deleted.
        """
        before, self.ranges = self.ranges, ranges
        for each in self.watches:
            each.want(ranges)
        gone = (before - ranges).labels
        records = [record for part in gone for record in self._store.select(index=(PARTS, part))]
        self._publish(self._store.hand_over(records))

    def knows(self, number: int) -> bool:
        """Return whether all objects of a shard have been listed."""
        return all(number in each.known for each in self.watches)

    def is_complete(self) -> bool:
        """See `ObjectFilter.is_complete`."""
        return all(map(self.knows, self.ranges.numbers))

    def holds_children_of(self, uid: str) -> bool:
        """See `ObjectFilter.holds_children_of`."""
        return self.of_children and uid in self.ranges

    def add_owner(self, owner: GroupVersionKind) -> None:
        """See `ObjectFilter.add_owner`."""
        if isinstance(self.division, ByOwner):
            self.division.add(owner)


class ShardWatch:
    """`manager.cache.sink.WatchFilter` that keeps the watch of one namespace at the wanted shards.

    While further shards are listed, the present watch continues. The next watch begins at a version at
    which both are complete, so it neither misses an object nor lists it twice. If that fails, all shards
    are listed anew.

    Attributes:
        known: the numbers of the shards whose objects have all been listed.
        taken: the shards whose objects are accepted.
        asked: the shards whose objects the watch requests from the server.
    """

    def __init__(
        self,
        division: Division,
        ranges: Ranges,
        sink: Sink,
        reflector: Reflector,
        learned: Callable[[], None],
    ) -> None:
        self._division = division
        self._sink = sink
        self._reflector = reflector
        self._learned = learned
        self._wanted = ranges
        # By a shard's number: the version up to which a list has shown it, ahead of the watch.
        self._ahead: dict[int, int] = {}
        self._changed = asyncio.Event()
        self._changed.set()
        self._watching: asyncio.Task[None] | None = None
        self.known = frozenset[int]()
        self.taken = self.asked = ranges & Ranges.of(ranges.count, ())

    # Methods for the sink

    @property
    def seen(self) -> int:
        """See `WatchFilter.seen`."""
        return max(self._ahead.values(), default=0)

    @property
    def is_empty(self) -> bool:
        """See `WatchFilter.is_empty`."""
        return not self.known

    def takes(self, meta: Meta) -> bool:
        """See `WatchFilter.takes`."""
        return self._division.takes(meta, self.taken)

    def knows(self, meta: Meta, version: int) -> bool:
        """See `WatchFilter.knows`. An object that is gone would be there again for a moment."""
        if not self._ahead:
            return False
        number = self._division.number_of(meta, self.taken)
        return number is not None and version <= self._ahead.get(number, 0)

    def query(self) -> Mapping[str, str]:
        """See `WatchFilter.query`."""
        return self._division.query(self.asked)

    def listed(self) -> None:
        """See `WatchFilter.listed`."""
        self._ahead.clear()
        self.known = self.taken.numbers
        self._learned()

    def advanced(self, version: int) -> None:
        """See `WatchFilter.advanced`."""
        if self._ahead and version >= max(self._ahead.values()):
            self._ahead.clear()

    # Changes of the shards

    def want(self, ranges: Ranges) -> None:
        """Set the wanted shards, and accept no objects of others any more."""
        self._wanted = ranges
        self.taken &= ranges
        self.known &= ranges.numbers
        self._sink.drop_listed()
        self._changed.set()

    async def run(self) -> None:
        """Follow the server until cancelled."""
        async with asyncio.TaskGroup() as watches:
            while True:
                await self._changed.wait()
                self._changed.clear()
                more = self._wanted - self.taken
                if more.numbers:
                    await self._take(more)
                elif self.asked == self.taken:
                    continue
                else:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(NARROW_AFTER):
                            await self._changed.wait()
                    if self._changed.is_set():
                        continue
                    if self.taken.numbers and not self._reflector.follows:
                        # a list in progress must end first, as its objects would be listed again
                        self._changed.set()
                        continue
                    await self._end_watch()
                # Fewer shards may be accepted by now.
                self.asked = self.taken
                if self.taken.numbers:
                    self._watching = watches.create_task(self._reflector.run(), name="watch ranges")
                else:
                    self._reflector.problem = None  # nothing is asked for
                if self.taken != self._wanted:
                    self._changed.set()

    async def _take(self, more: Ranges) -> None:
        found: dict[ObjectKey, Record] = {}
        decoder, division = self._sink.decoder, self._division

        def take(item: msgspec.Raw) -> None:
            arrival = decoder.look(item)
            if division.takes(arrival.meta, more):
                found[arrival.key] = decoder.take(arrival)[0]

        version = None
        if self.known and self._reflector.follows:
            version = await self._reflector.list_beside(division.query(more), take)
        await self._end_watch()
        wanted = self._wanted
        if version is not None and self._reflector.follows:
            self._extend(more & wanted, found, version)
        else:
            self.taken = wanted
            self._reflector.start_over()

    def _extend(self, more: Ranges, listed: Mapping[ObjectKey, Record], version: int) -> None:
        """Accept more shards, whose objects were all listed at the given version.

        The next watch repeats known changes, which are then ignored.
        """
        reached = self._sink.version
        self._ahead |= {number: max(reached, self._ahead.get(number, 0)) for number in self.known}
        self._ahead |= dict.fromkeys(more.numbers, version)
        self.taken |= more
        self.known |= more.numbers
        self._sink.extend(listed, version)
        self._learned()

    async def _end_watch(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
            self._watching = None
