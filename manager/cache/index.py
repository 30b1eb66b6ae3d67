"""Indexes: which objects have a value, without looking at the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from functools import cache
from operator import attrgetter
from typing import Any

import msgspec

from manager.api import ObjectKey
from manager.cache.meta import Meta
from manager.cache.record import Record

__all__ = ["Index", "IndexFailed", "IndexFunction", "KeyGroups", "index_by"]

IndexFunction = Callable[[Record, Meta], Iterable[str]]
"""Answers the values under which an object is found. It must depend on nothing but its arguments."""

IndexFailed = Callable[[str, ObjectKey, Exception], None]
"""Is told what the function of an index raised, and on which object, which is then found under no value."""

# A name, in which a backslash takes the meaning from a dot, and whether each item of a list counts.
_STEP = re.compile(r"(?P<name>(?:[^.\[\]\\]|\\.)+)(?P<each>\[\*\])?(?:\.(?=.)|$)")


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
    steps: list[tuple[str, bool]] = []
    position = 0
    while position < len(path) or not steps:
        match = _STEP.match(path, position)
        if match is None:
            raise ValueError(f"not a path of an index: {path!r}, at {path[position:]!r}")
        steps.append((re.sub(r"\\(.)", r"\1", match["name"]), match["each"] is not None))
        position = match.end()
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

    return values_of_lists if any(lists) else values_of_one


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
