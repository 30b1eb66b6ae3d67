"""Indexes: which objects have a value, without looking at the others; and all those of one store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, partial
from operator import attrgetter
from typing import Any

import msgspec

from manager.api import ObjectKey
from manager.cache.event import CacheEvent
from manager.cache.parts import steps_on
from manager.cache.record import Meta, Record
from manager.loop import Portions

IndexFunction = Callable[[Record, Meta], Iterable[str]]
"""Answers the values under which an object is found. It must depend on nothing but its arguments."""

IndexFailed = Callable[[str, ObjectKey, Exception], None]
"""Is told what the function of an index raised, and on which object, which is then found under no value."""

_STEPS = "steps"


@cache
def index_by(path: str) -> IndexFunction:
    r"""An index function that finds an object by what stands at a path of its JSON.

        cache.informer(Foo).add_index("friend", index_by("spec.name"))

    The path has the names that the API uses, with `[*]` where every item of a list counts, and a backslash
    before a dot within a name: `spec.template.spec.volumes[*].secret.secretName`,
    `metadata.annotations.example\.com/site`. Numbers and booleans are written as in JSON. An object has no
    value where the path leads nowhere, to null or to an empty string, and where anything on it is of another
    shape. Decodes nothing but the path. Raises ValueError for what is not a path.

    The same path answers the same function, so two controllers may register it under one name.
    """
    steps = steps_on(path)
    shape: Any = str | int | bool | None
    for name, each in reversed(steps):
        shape = (list[shape] | None) if each else shape
        fields = [("value", shape, None)]
        shape = msgspec.defstruct("_Step", fields, rename={"value": name}, gc=False) | None
    decode = msgspec.json.Decoder(shape).decode
    lists = tuple(each for _, each in steps)
    at_the_end = attrgetter(".".join(["value"] * len(steps)))

    # Called twice for every change of the kind, so the common case has a way of its own.
    def values_of_one(record: Record, _: Meta) -> Iterable[str]:
        try:
            value = at_the_end(decode(record.raw))
        except (msgspec.DecodeError, AttributeError):
            return ()  # stored under another schema (who reads it finds out what is wrong), or a null
        return () if value is None or value == "" else (_text(value),)

    def values_of_lists(record: Record, _: Meta) -> Iterable[str]:
        try:
            found = [decode(record.raw)]
        except msgspec.DecodeError:
            return ()
        for is_list in lists:
            found = [step.value for step in found if step is not None]
            if is_list:
                found = [item for items in found if items is not None for item in items]
        return [_text(value) for value in found if value is not None and value != ""]

    function = values_of_lists if any(lists) else values_of_one
    setattr(function, _STEPS, steps)
    return function


def steps_of(function: IndexFunction) -> tuple[tuple[str, bool], ...]:
    """The names on the path of an `index_by`, and whether each item of a list counts; of others none."""
    steps: tuple[tuple[str, bool], ...] = getattr(function, _STEPS, ())
    return steps


def _text(value: str | int) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


class KeyGroups:
    """Keys by value.

    Most values have one object only, and then its key stands alone; a set costs five times as much.
    """

    def __init__(self) -> None:
        self._groups: dict[str, ObjectKey | set[ObjectKey]] = {}

    def keys(self, value: str) -> Collection[ObjectKey]:
        """The keys that have the value; not to be changed, nor kept."""
        found = self._groups.get(value)
        if found is None:
            return ()
        return found if isinstance(found, set) else (found,)

    def add(self, value: str, key: ObjectKey) -> None:
        """Note that a key has the value."""
        held = self._groups.get(value)
        if held is None:
            self._groups[value] = key
        elif isinstance(held, set):
            held.add(key)
        elif held != key:
            self._groups[value] = {held, key}

    def discard(self, value: str, key: ObjectKey) -> None:
        """Forget that a key has the value, if it was known."""
        held = self._groups.get(value)
        if isinstance(held, set):
            held.discard(key)
            if len(held) == 1:
                self._groups[value] = held.pop()
        elif held == key:
            del self._groups[value]


class Index(KeyGroups):
    """Keys by what a function says of the objects."""

    def __init__(self, name: str, function: IndexFunction, failed: IndexFailed) -> None:
        super().__init__()
        self._name = name
        self._function = function
        self._failed = failed

    @property
    def function(self) -> IndexFunction:
        """What the index was made with."""
        return self._function

    def insert(self, record: Record, meta: Meta) -> None:
        """Take in an object that was not there."""
        for value in self._values(record, meta):
            self.add(value, record.key)

    def remove(self, record: Record, meta: Meta) -> None:
        """Forget an object."""
        for value in self._values(record, meta):
            self.discard(value, record.key)

    def update(self, old: Record, old_meta: Meta, new: Record, new_meta: Meta) -> None:
        """Replace an object's values."""
        before, after = self._values(old, old_meta), self._values(new, new_meta)
        if before == after:
            return
        for value in before - after:
            self.discard(value, old.key)
        for value in after - before:
            self.add(value, old.key)

    def _values(self, record: Record, meta: Meta) -> frozenset[str]:
        try:
            return frozenset(self._function(record, meta))
        except Exception as error:  # noqa: BLE001 - the operator's code may raise anything
            # It must not stop the watch of a kind that others use too.
            self._failed(self._name, record.key, error)
            return frozenset()


class Indexes:
    """Finds keys by namespace, owner, label, or an operator's own function.

    An index is built when it is first asked for, at the cost of one pass over the store, and kept current
    from then on: what nobody asks for costs nothing. `prepare` builds it with turns for others.
    """

    def __init__(self, records: Mapping[ObjectKey, Record], failed: IndexFailed) -> None:
        """`failed` is told what an operator's function raised, and on which object."""
        self._records = records
        self._failed = failed
        self._indexes: dict[str, Index] = {}
        # Apart from the others, because it needs no look at the object: the namespace is in the key.
        self._namespaces: KeyGroups | None = None
        # Those that are being built, which nobody may ask yet.
        self._growing: dict[str, Index] = {}
        self._grows = asyncio.Lock()

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

    async def prepare(self, *, labels: Iterable[str], owners: bool) -> None:
        """Build what these conditions need, so that others have their turn meanwhile.

        Whoever fills many objects decides how long that takes; in one go it could be seconds.
        """
        for label in labels:
            if (name := f"label {label}") not in self._indexes:
                await self._grow(name, partial(_label, label))
        if owners and "owner" not in self._indexes:
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
                    if (record := self._records.get(key)) is not None:  # it may have changed, or gone
                        index.insert(record, record.meta())
            finally:
                del self._growing[name]
            self._indexes.setdefault(name, index)

    def changed(self, event: CacheEvent) -> None:
        """Follow a change of the store."""
        if self._namespaces is not None and event.old is None:
            self._namespaces.add(event.key.namespace, event.key)
        elif self._namespaces is not None and event.new is None:
            self._namespaces.discard(event.key.namespace, event.key)
        for index in (*self._indexes.values(), *self._growing.values()):
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
