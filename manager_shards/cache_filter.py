"""A filter for the cache: it keeps only the objects of this replica's current shards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec

from manager.api import GroupVersionKind, ObjectKey
from manager.cache import CacheEvent, Informer, Meta, Record
from manager.cache.reflector import Reflector
from manager.cache.sink import Sink
from manager.cache.store import Store
from manager.client.child_label import label_of_slice, slice_of_uid
from manager_shards.shard_set import ShardSet, slice_of_label

SLICES = "slice"
"""The index of objects by their slice of the hashes, the unit of the children's label."""

NARROW_AFTER = 5.0
"""Seconds for which other replicas' objects are still watched, and dropped, after a shard was given up."""


def index_by_uid(record: Record, meta: Meta) -> Iterable[str]:  # noqa: ARG001 - the signature of index functions
    """Return the object's value in the index `SLICES`: the label of the slice that contains its UID."""
    return (label_of_slice(slice_of_uid(meta.uid)),)


def has_listed(informer: Informer, number: int) -> bool:
    """Return whether an informer has listed all its objects of a shard."""
    return not isinstance(informer.filter, ShardFilter) or informer.filter.has_listed(number)


def records_in(informer: Informer, shards: ShardSet) -> list[Record]:
    """Return the cached records of the objects in these shards; the informer needs the index `SLICES`."""
    return [record for label in shards.labels for record in informer.list(index=(SLICES, label))]


class ShardFilter:
    """A `manager.cache.ObjectFilter` for the objects of a changing set of shards.

    An operator's object is in the shard of its UID, a child is in the shard of its owner's UID. A label on
    each child names the slice (a part of a shard) of its owner's UID; the server selects children by this
    label. A child without the label is found by its owner reference. An unlabelled child without an owner, or
    with an owner of a kind that was not added by `add_owner`, is in no shard.
    """

    def __init__(
        self, shards: ShardSet, *, label: str = "", learned: Callable[[], None] = lambda: None
    ) -> None:
        """Create a filter; `label` is the key of the children's label, "" for an operator's own objects.

        `learned` is called whenever more shards have been listed.
        """
        self.of_children = label != ""
        self.shards = shards
        self.watches: list[ShardWatch] = []
        self.learned = learned
        self._label = label
        self._owners: set[tuple[str, str]] = set()
        self._store: Store
        self._publish: Callable[[Sequence[CacheEvent]], None]

    def attach(self, store: Store, publish: Callable[[Sequence[CacheEvent]], None]) -> None:
        """Set the filtered store; `publish` gets an event for each object that the filter removes."""
        self._store, self._publish = store, publish
        store.indexes.add(SLICES, self._index if self.of_children else index_by_uid)

    def of_watch(self, sink: Sink, reflector: Reflector) -> ShardWatch:
        """Create the filter for the watch of one namespace."""
        self.watches.append(ShardWatch(self, sink, reflector))
        return self.watches[-1]

    def slice_of(self, meta: Meta) -> int | None:
        """Return the slice of the hashes that contains an object (see `slice_of_uid`), or None."""
        if not self.of_children:
            return slice_of_uid(meta.uid)
        label = meta.labels.get(self._label)
        if label is not None and (number := slice_of_label(label)) is not None:
            return number
        controller = meta.controller
        if controller is None:
            return None
        group, _, _ = controller.api_version.rpartition("/")
        return slice_of_uid(controller.uid) if (group, controller.kind) in self._owners else None

    def _index(self, record: Record, meta: Meta) -> Iterable[str]:  # noqa: ARG002 - the signature of index functions
        number = self.slice_of(meta)
        return () if number is None else (label_of_slice(number),)

    def query(self, shards: ShardSet) -> dict[str, str]:
        """Return the query parameters for the objects of these shards; other objects may also arrive.

        The selector for children excludes the labels of other shards, so it includes unlabelled objects.
        """
        if not self.of_children:
            return {"shardSelector": shards.selector}
        others = shards.others.labels
        return {"labelSelector": f"{self._label} notin ({','.join(others)})" if others else ""}

    def takes(self, meta: Meta, shards: ShardSet) -> bool:
        """Return whether an object is in one of these shards."""
        number = self.slice_of(meta)
        return number is not None and shards.number_of_slice(number) in shards.numbers

    def restrict(self, shards: ShardSet) -> None:
        """Keep only the objects of these shards: drop other objects at once, and list new shards.

        Subscribers get an event with `handed_over` for each dropped object, because it is not deleted.
        """
        before, self.shards = self.shards, shards
        for each in self.watches:
            each.want(shards)
        gone = (before - shards).labels
        records = [record for label in gone for record in self._store.select(index=(SLICES, label))]
        self._publish(self._store.hand_over(records))

    def has_listed(self, number: int) -> bool:
        """Return whether all objects of a shard have been listed."""
        return all(number in each.known for each in self.watches)

    def is_complete(self) -> bool:
        """Return whether all objects in the selected shards have been listed."""
        return all(map(self.has_listed, self.shards.numbers))

    def holds_children_of(self, uid: str) -> bool:
        """Return whether this is a filter for children, and the owner's UID is in a selected shard."""
        return self.of_children and uid in self.shards

    def add_owner(self, owner: GroupVersionKind) -> None:
        """Also keep children whose owner is of the kind `owner`."""
        self._owners.add((owner.group, owner.kind))


class ShardWatch:
    """A `manager.cache.sink.WatchFilter` that limits the watch of one namespace to the wanted shards.

    The current watch continues while further shards are listed. The next watch begins at a version at which
    all shards are complete. If that fails, all shards are listed again. All objects of the shards in `known`
    have been listed. Objects of those in `taken` are accepted. `asked` are the shards in the watch's request.
    """

    def __init__(self, object_filter: ShardFilter, sink: Sink, reflector: Reflector) -> None:
        self._filter = object_filter
        self._sink = sink
        self._reflector = reflector
        self._wanted = object_filter.shards
        # By shard number: the version up to which a list has shown the shard, ahead of the watch.
        self._ahead: dict[int, int] = {}
        self._changed = asyncio.Event()
        self._changed.set()
        self._watching: asyncio.Task[None] | None = None
        self.known = frozenset[int]()
        self.taken = self.asked = self._wanted - self._wanted

    # Methods for the sink

    @property
    def seen(self) -> int:
        """Return the highest version of the lists that are newer than the watch; 0 if there is none."""
        return max(self._ahead.values(), default=0)

    @property
    def is_empty(self) -> bool:
        """Return whether no shard has been listed yet."""
        return not self.known

    def takes(self, meta: Meta) -> bool:
        """Return whether the object is in a shard that is accepted at present."""
        return self._filter.takes(meta, self.taken)

    def knows(self, meta: Meta, version: int) -> bool:
        """Return whether the list of the object's shard is newer than the change, which is then ignored."""
        if not self._ahead:
            return False
        number = self._filter.slice_of(meta)
        return number is not None and version <= self._ahead.get(self.taken.number_of_slice(number), 0)

    def query(self) -> Mapping[str, str]:
        """Return the query parameters for the requested shards; the server may ignore them."""
        return self._filter.query(self.asked)

    def listed(self) -> None:
        """Record that the list of all accepted shards is complete."""
        self._ahead.clear()
        self.known = self.taken.numbers
        self._filter.learned()

    def advanced(self, version: int) -> None:
        """Record that the watch has reached a version."""
        if self._ahead and version >= max(self._ahead.values()):
            self._ahead.clear()

    # Changes of the shards

    def want(self, shards: ShardSet) -> None:
        """Set the wanted shards; objects of all other shards are no longer accepted."""
        self._wanted = shards
        self.taken &= shards
        self.known &= shards.numbers
        self._sink.drop_listed()
        self._changed.set()

    async def run(self) -> None:
        """List and watch the objects of the wanted shards until cancelled."""
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
                        # a running list must end first, because its objects would be listed again
                        self._changed.set()
                        continue
                    await self._end_watch()
                # The set of accepted shards may be smaller by now.
                self.asked = self.taken
                if self.taken.numbers:
                    self._watching = watches.create_task(self._reflector.run(), name="watch shards")
                else:
                    self._reflector.problem = None  # no shard is requested
                if self.taken != self._wanted:
                    self._changed.set()

    async def _take(self, more: ShardSet) -> None:
        found: dict[ObjectKey, Record] = {}
        decoder, takes = self._sink.decoder, self._filter.takes

        def take(item: msgspec.Raw) -> None:
            arrival = decoder.look(item)
            if takes(arrival.meta, more):
                found[arrival.key] = decoder.take(arrival)[0]

        version = None
        if self.known and self._reflector.follows:
            version = await self._reflector.list_beside(self._filter.query(more), take)
        await self._end_watch()
        if version is None or not self._reflector.follows:
            self.taken = self._wanted
            self._reflector.start_over()
            return
        # The next watch repeats known changes, which are then ignored.
        more &= self._wanted
        reached = self._sink.version
        self._ahead |= {number: max(reached, self._ahead.get(number, 0)) for number in self.known}
        self._ahead |= dict.fromkeys(more.numbers, version)
        self.taken |= more
        self.known |= more.numbers
        self._sink.extend(found, version)
        self._filter.learned()

    async def _end_watch(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
            self._watching = None
