"""The store of one kind's objects, and the rules by which it changes.

The store relies on two facts. First, versions grow: of two states of an object, the one with the higher
resourceVersion is later, even if it arrives first. Second, a watch is complete: when it has reached a
version (the store's progress), it has sent every change up to that version.

So the store treats the answer to a write of this process as an event, and publishes it at once. The later
watch event has the same version and is dropped. If the answer to a write is not newer than the progress, and
the store lacks the object, the object has been deleted since. A list that is older than a write does not undo
or hide the write, because the watch after that list will report it.

The first fact is wrong if this process has deleted an object and a restored backup brings it back: it is the
same object, and no watch will report its deletion. So the store doubts every new state of a deleted object,
until a watch reports the deletion or the reflector has read the object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from heapq import nlargest
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from manager.api import ObjectKey
from manager.cache.record import CacheEvent, Meta, Record, steps_on
from manager.cache.spec import Selector
from manager.util.loop import Portions

# Indexes: find the objects with a value without reading the others.

IndexFunction = Callable[[Record, Meta], Iterable[str]]
"""Returns the values by which an object is found, which must depend on nothing but the arguments."""

IndexFailed = Callable[[str, ObjectKey, Exception], None]
"""Gets an index's name, an object's key, and the exception that the index function raised."""

_STEPS = "steps"


@cache
def index_by(path: str) -> IndexFunction:
    r"""Return an index function that finds an object by the values at a path of its JSON.

        cache.informer(Foo).add_index("friend", index_by("spec.name"))

    The path consists of the API's field names, with `[*]` for every item of a list, and a backslash before a
    dot in a name: `spec.template.spec.volumes[*].secret.secretName`,
    `metadata.annotations.example\.com/site`. Integers and booleans are written as in JSON. An object has no
    value if the path leads to nothing, to null, to an empty string, or through a value of an unexpected type.
    The function decodes only the path. Raises ValueError for a malformed path.

    Equal paths return the same function, so two controllers may register it with the same name.
    """
    steps = steps_on(path)
    shape: Any = str | int | bool | None
    for name, each in reversed(steps):
        shape = (list[shape] | None) if each else shape
        fields = [("value", shape, None)]
        shape = msgspec.defstruct("_Step", fields, rename={"value": name}, gc=False) | None
    decode = msgspec.json.Decoder(shape).decode
    lists = tuple(each for _, each in steps)

    def values(record: Record, _: Meta) -> Iterable[str]:
        try:
            found = [decode(record.raw)]
        except msgspec.DecodeError:
            return ()  # stored with another schema; its reader reports the error
        for is_list in lists:
            found = [step.value for step in found if step is not None]
            if is_list:
                found = [item for items in found if items is not None for item in items]
        return [_text(value) for value in found if value is not None and value != ""]

    setattr(values, _STEPS, steps)
    return values


def steps_of(function: IndexFunction) -> tuple[tuple[str, bool], ...]:
    """Return the steps of an `index_by` path, each with a flag for "every item"; () for other functions."""
    steps: tuple[tuple[str, bool], ...] = getattr(function, _STEPS, ())
    return steps


def _text(value: str | int) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


class KeyGroups:
    """Object keys by index value; a single key is stored alone, because a set needs five times the memory."""

    def __init__(self) -> None:
        self._groups: dict[str, ObjectKey | set[ObjectKey]] = {}

    def keys(self, value: str) -> Collection[ObjectKey]:
        """Return the keys that have the value; callers must not change or store the collection."""
        found = self._groups.get(value)
        if found is None:
            return ()
        return found if isinstance(found, set) else (found,)

    def add(self, value: str, key: ObjectKey) -> None:
        """Add a key to the value."""
        held = self._groups.get(value)
        if held is None:
            self._groups[value] = key
        elif isinstance(held, set):
            held.add(key)
        elif held != key:
            self._groups[value] = {held, key}

    def discard(self, value: str, key: ObjectKey) -> None:
        """Remove a key from the value, if it is there."""
        held = self._groups.get(value)
        if isinstance(held, set):
            held.discard(key)
            if len(held) == 1:
                self._groups[value] = held.pop()
        elif held == key:
            del self._groups[value]


class Index(KeyGroups):
    """An index of keys by the values that a function returns for the objects."""

    def __init__(self, name: str, function: IndexFunction, failed: IndexFailed) -> None:
        super().__init__()
        self.function = function
        self._name = name
        self._failed = failed

    def follow(self, event: CacheEvent) -> None:
        """Replace the index values of a changed object."""
        before = self._values(event.old, event.old_meta)
        after = self._values(event.new, event.meta)
        if before == after:
            return
        for value in before - after:
            self.discard(value, event.key)
        for value in after - before:
            self.add(value, event.key)

    def insert(self, record: Record) -> None:
        """Add the index values of a new object."""
        for value in self._values(record, record.meta()):
            self.add(value, record.key)

    def _values(self, record: Record | None, meta: Meta | None) -> frozenset[str]:
        if record is None or meta is None:
            return frozenset()
        try:
            return frozenset(self.function(record, meta))
        except Exception as error:  # noqa: BLE001 - the operator's code may raise anything
            # The error must not stop the watch of a kind that others also use.
            self._failed(self._name, record.key, error)
            return frozenset()


class Indexes:
    """The indexes of keys by namespace, owner, label, or an operator's own function.

    An index is built at its first use, or by `add`, and then kept up to date. `prepare` builds an index in
    portions, between which other tasks run.
    """

    def __init__(self, records: Mapping[ObjectKey, Record], failed: IndexFailed) -> None:
        """Create indexes; `failed` gets each exception of an operator's function, with an object's key."""
        self._records = records
        self._failed = failed
        self._indexes: dict[str, Index] = {}
        # Separate, because it needs only the key, which contains the namespace.
        self._namespaces: KeyGroups | None = None
        # Incomplete indexes, which cannot be used yet.
        self._growing: dict[str, Index] = {}
        self._grows = asyncio.Lock()

    def add(self, name: str, function: IndexFunction) -> None:
        """Register an index; raises ValueError if another function has the name."""
        if self._built(f"own {name}", function).function != function:
            raise ValueError(f"another function already has the index name {name!r}")

    def narrow(
        self,
        *,
        namespace: str | None,
        labels: Mapping[str, str] | None,
        owner_uid: str | None,
        index: tuple[str, str] | None,
    ) -> list[Collection[ObjectKey]]:
        """Return the keys for each condition that has an index; raise KeyError for an unknown index name."""
        found = []
        if index is not None:
            name, value = index
            if (own := self._indexes.get(f"own {name}")) is None:
                raise KeyError(f"no index {name!r} is registered")
            found.append(own.keys(value))
        if owner_uid is not None:
            found.append(self._built("owner", _owners).keys(owner_uid))
        for label, value in (labels or {}).items():
            found.append(self._built(f"label {label}", partial(_label, label)).keys(value))
        if namespace:
            if self._namespaces is None:
                self._namespaces = KeyGroups()
                for key in self._records:
                    self._namespaces.add(key.namespace, key)
            found.append(self._namespaces.keys(namespace))
        return found

    async def prepare(self, *, labels: Mapping[str, str] | None = None, owner_uid: str | None = None) -> None:
        """Build the indexes for these conditions, in portions between which other tasks run."""
        for label in labels or ():
            if (name := f"label {label}") not in self._indexes:
                await self._grow(name, partial(_label, label))
        if owner_uid is not None and "owner" not in self._indexes:
            await self._grow("owner", _owners)

    async def _grow(self, name: str, function: IndexFunction) -> None:
        async with self._grows:
            if name in self._indexes:
                return
            index = self._growing[name] = Index(name, function, self._failed)
            try:
                portions = Portions()
                for key in list(self._records):
                    if (record := self._records.get(key)) is not None:
                        await portions.begin(len(record.raw))
                    if (record := self._records.get(key)) is not None:  # it may have changed or be gone
                        index.insert(record)
            finally:
                del self._growing[name]
            self._indexes.setdefault(name, index)

    def changed(self, event: CacheEvent) -> None:
        """Update the indexes after a change of the store."""
        if self._namespaces is not None and event.old is None:
            self._namespaces.add(event.key.namespace, event.key)
        elif self._namespaces is not None and event.new is None:
            self._namespaces.discard(event.key.namespace, event.key)
        for index in (*self._indexes.values(), *self._growing.values()):
            index.follow(event)

    def _built(self, name: str, function: IndexFunction) -> Index:
        if (index := self._indexes.get(name)) is None:
            index = self._indexes[name] = Index(name.removeprefix("own "), function, self._failed)
            for record in self._records.values():
                index.insert(record)
        return index


def _owners(_: Record, meta: Meta) -> Iterable[str]:
    return [owner.uid for owner in meta.owner_references]


def _label(key: str, _: Record, meta: Meta) -> Iterable[str]:
    value = meta.labels.get(key)
    return () if value is None else (value,)


# The number of names for which the store refuses old states. A watch is late by fewer objects; forgetting a
# name too early shows a deleted object for a moment.
FLOORS = 10_000


class _Floor(NamedTuple):
    """States that the store refuses for an object it lacks: up to `version`, or with the UID `deleted`."""

    version: int
    deleted: str = ""


class Store:
    """Records by key, with indexes. Every method that changes the records returns the changes as events.

    `selector` is the label selector of the stored objects. `filtered` says that the server also applies a
    field selector, which the store cannot evaluate: then our own writes change cached objects, and never add
    one.

    Attributes:
        records: all records by key; only the store may change the map.
        indexes: the indexes of the records.
        bytes: the bytes of the stored JSON.
    """

    def __init__(
        self,
        *,
        selector: Selector | None = None,
        filtered: bool = False,
        index_failed: IndexFailed = lambda *_: None,
    ) -> None:
        """Create the store; `index_failed` gets each exception of an index function, and the object's key."""
        self.records: dict[ObjectKey, Record] = {}
        self.indexes = Indexes(self.records, index_failed)
        self._selector = selector or Selector()
        self._filtered = filtered
        self.bytes = 0
        # The version that the watch of each namespace has reached; "" is the watch of all namespaces.
        self._progress: dict[str, int] = {}
        self._floors: dict[ObjectKey, _Floor] = {}
        # The UIDs of deleted objects that the server has sent again without reporting their deletion.
        self._doubted: dict[ObjectKey, str] = {}

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records.values())

    def count(self, namespace: str) -> int:
        """Return the number of objects in a namespace, or in all for ""."""
        return len(self._of(namespace))

    def newest(self, namespace: str, most: int) -> list[tuple[ObjectKey, int]]:
        """Return keys and versions of the `most` newest objects of a namespace ("" for all), newest first."""
        newest = nlargest(most, self._of(namespace), key=attrgetter("version"))
        return [(each.key, each.version) for each in newest]

    def _of(self, namespace: str) -> Collection[Record]:
        return self.select(namespace=namespace) if namespace else self.records.values()

    def select(
        self,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        owner_uid: str | None = None,
        index: tuple[str, str] | None = None,
    ) -> list[Record]:
        """Return the records that meet every condition, in the order of their keys.

        No namespace, or "", means all. `labels` is a map of labels that must be equal; `index` is (name,
        value) of an index of `Informer.add_index`. The cost depends on the most selective condition. Raises
        KeyError for an index that is not registered.
        """
        narrowed = self.indexes.narrow(namespace=namespace, labels=labels, owner_uid=owner_uid, index=index)
        if narrowed:
            if not all(narrowed):
                return []
            fewest, *others = sorted(narrowed, key=len)
            for other in others:
                fewest = [key for key in fewest if key in other]
            keys = sorted(fewest)
        else:
            keys = sorted(self.records)
        # An index function that sometimes fails for an object may leave an outdated key behind.
        return [record for key in keys if (record := self.records.get(key)) is not None]

    def progress(self, namespace: str) -> int:
        """Return the version up to which a namespace's watch ("" for all) has sent every change, or 0."""
        return self._progress.get(namespace, 0)

    def advance(self, namespace: str, version: int) -> None:
        """Record that the watch has reached a version."""
        self._progress[namespace] = version

    def put(self, record: Record, meta: Meta | None = None, *, initial: bool = False) -> Sequence[CacheEvent]:
        """Store a state of an object, unless the store has this state or a newer one."""
        if not self.is_news(record.key, record.uid, record.version):
            return ()
        return self.accept(record, meta, initial=initial)

    def is_news(self, key: ObjectKey, uid: str, version: int) -> bool:
        """Return whether `put` would store this state; if not, a deleted object may be added to `doubted`."""
        floor = self._floors.get(key)
        if floor is not None and (version <= floor.version or uid == floor.deleted):
            if uid == floor.deleted:
                self._doubted[key] = uid
            return False
        held = self.records.get(key)
        return held is None or version > held.version

    def remove(self, record: Record) -> Sequence[CacheEvent]:
        """Remove an object that was deleted or has left the selection; `record` is its last state."""
        held = self.records.get(record.key)
        if held is None:
            floor = self._floors.get(record.key)
            # The object was deleted for good, so no later state will arrive. (With a selection, it may only
            # have left the selection.)
            if floor is not None and floor.deleted == record.uid:
                self._doubted.pop(record.key, None)
                if not self._filtered and not self._selector.requirements:
                    del self._floors[record.key]
            return ()
        if record.version < held.version and (not self._filtered or held.uid != record.uid):
            return ()  # we have written the object since
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
        """Replace the objects of a namespace ("" for all) by a list at a version, in one step.

        If `version` is lower than the watch's, or with `restored`, the server's storage was restored from a
        backup: the list then replaces even newer cached objects, because they belong to a lost history.
        """
        events: list[CacheEvent] = []
        restored = restored or version < self.progress(namespace)
        # The store already has most of the list. No other task runs during this loop.
        news = [record for key, record in listed.items() if self.records.get(key) is not record]
        gone: Sequence[Record] = ()
        if len(self.records) > len(listed) - len(news):
            gone = [held for key, held in self.records.items() if key not in listed]
        for held in gone:
            if namespace and held.key.namespace != namespace:
                continue
            if held.version <= version or restored or self._filtered:
                events.append(self._drop(held))
        if restored:
            self._floors.clear()
            self._doubted.clear()
        for record in news:
            known = self.records.get(record.key)
            floor = self._floors.get(record.key)
            if floor is not None and record.uid != floor.deleted and floor.version < version:
                del self._floors[record.key]
            # A list knows every change up to its own version, so a later state that it lacks never existed.
            if (
                known is not None
                and known.raw != record.raw
                and (restored or record.version < known.version <= version)
            ):
                events += self.accept(record, initial=initial)
            else:
                events += self.put(record, initial=initial)
        self._progress[namespace] = version
        return events

    def doubted(self, namespace: str) -> set[tuple[ObjectKey, str]]:
        """Return the keys and UIDs of deleted objects that the server has sent again (namespace "": all)."""
        return {each for each in self._doubted.items() if not namespace or each[0].namespace == namespace}

    def settle(self, key: ObjectKey, record: Record | None) -> Sequence[CacheEvent]:
        """Store the server's answer about an object of `doubted`; None means that it does not exist."""
        uid = self._doubted.pop(key, "")
        if record is None:
            return ()
        if (floor := self._floors.get(key)) is not None and floor.deleted == uid == record.uid:
            del self._floors[key]
        return self.put(record)

    def hand_over(self, gone: Iterable[Record]) -> Sequence[CacheEvent]:
        """Remove objects that no longer pass a filter; any version of them may be stored again later."""
        return [self._change(record, None, handed_over=True) for record in gone]

    def observe_write(self, record: Record, meta: Meta) -> Sequence[CacheEvent]:
        """Store the state after one of our writes, or remove an object that has left the selection."""
        if not self.is_news(record.key, record.uid, record.version):
            return ()
        if self._selector.requirements and not self._selector.matches(meta.labels):
            return self._leave(record)
        held = self.records.get(record.key)
        if held is None and record.version <= self._reached(record.key):
            return ()
        if self._filtered and (held is None or held.uid != record.uid):
            return ()
        return self.accept(record, meta)

    def observe_deletion(self, key: ObjectKey, uid: str, version: int = 0) -> Sequence[CacheEvent]:
        """Remove an object that one of our writes has deleted; late events do not bring it back.

        `version` is a version that the object had, if known.
        """
        held = self.records.get(key)
        if held is not None and held.uid != uid and held.version > version:
            return ()  # another object has the name by now
        self._raise_floor(key, _Floor(max(version, held.version if held else 0), uid))
        return () if held is None else (self._change(held, None),)

    def _leave(self, record: Record) -> Sequence[CacheEvent]:
        """Remove an object that one of our writes has moved out of the selection."""
        held = self.records.get(record.key)
        if held is not None and held.version >= record.version:
            return ()
        if record.version > self._reached(record.key):
            # Earlier states, in which the object still matched, may yet arrive.
            self._raise_floor(record.key, _Floor(record.version))
        return () if held is None else (self._change(held, None),)

    def _reached(self, key: ObjectKey) -> int:
        return self._progress.get("") or self._progress.get(key.namespace, 0)

    def _raise_floor(self, key: ObjectKey, floor: _Floor) -> None:
        # Insert it at the end again, so that the oldest floor is removed first.
        before = self._floors.pop(key, floor)
        self._floors[key] = floor._replace(version=max(floor.version, before.version))
        if len(self._floors) > FLOORS:
            oldest = next(iter(self._floors))
            del self._floors[oldest]
            self._doubted.pop(oldest, None)

    def _drop(self, held: Record) -> CacheEvent:
        """Remove an object that is not in the selection according to the server."""
        if self._filtered:
            # The server may have sent this before it got our last write, which may have brought the object
            # back. In that case the watch will report exactly the version that we wrote; until then, older
            # states must not appear.
            self._raise_floor(held.key, _Floor(held.version - 1))
        return self._change(held, None)

    # The only methods that change records.

    def accept(
        self, record: Record, meta: Meta | None = None, *, initial: bool = False
    ) -> Sequence[CacheEvent]:
        """Store a state of an object; the caller knows that the state replaces the stored one."""
        held = self.records.get(record.key)
        if held is None or held.uid == record.uid:
            return (self._change(held, record, meta, initial=initial),)
        # Another object has the same name: no reader should see it as a change of the first.
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
            self.bytes -= len(old.raw) + len(old.managed)
        if new is not None:
            if old is not None:
                # The store and its indexes already reference these strings.
                new.key, new.uid = old.key, old.uid
            self.bytes += len(new.raw) + len(new.managed)
            self.records[new.key] = new
        elif old is not None:
            del self.records[old.key]
        self.indexes.changed(event)
        return event
