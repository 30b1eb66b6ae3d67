"""Indexes: which objects have a value, without looking at the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from manager.api import ObjectKey
from manager.cache.meta import Meta
from manager.cache.record import Record

__all__ = ["Index", "IndexFailed", "IndexFunction", "KeyGroups"]

IndexFunction = Callable[[Record, Meta], Iterable[str]]
"""Answers the values under which an object is found. It must depend on nothing but its arguments."""

IndexFailed = Callable[[str, ObjectKey, Exception], None]
"""Is told what the function of an index raised, and on which object, which is then found under no value."""


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
