"""Ownership of the store's records, so that no two Pets use the same record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

import msgspec

from apis.petstore.v1beta1.pet import Pet
from controllers.petstore.record import Content
from manager import Informer, ObjectKey
from manager.cache import Record, index_by

BY_ID, BY_UID = "store-id", "uid"
INDEXES = {BY_ID: index_by("status.id"), BY_UID: index_by("metadata.uid")}
"""The indexes of the cached Pets. Several Pets have the same id only after a manual change."""


class _Metadata(msgspec.Struct, rename="camel"):
    creation_timestamp: str | None = None


class _Created(msgspec.Struct):
    metadata: _Metadata


def oldest(pets: Iterable[Record]) -> Record | None:
    """Return the oldest of these Pets, even if it cannot be decoded; None if there is none."""
    return min(pets, key=_age, default=None)


def _age(pet: Record) -> tuple[str, str]:
    return msgspec.json.decode(pet.raw, type=_Created).metadata.creation_timestamp or "", pet.uid


class Claims:
    """The owners of records: a record belongs to the Pet whose status has its id.

    A claim marks the owner from the time when a record is found or added until the status has its id. A store
    with keys knows the owner by the key. Claims are for stores without keys.
    """

    def __init__(self, pets: Informer) -> None:
        self._pets = pets
        self._by_key: dict[ObjectKey, tuple[str, str]] = {}  # UID and id
        self._by_id: dict[str, ObjectKey] = {}
        self._begun: dict[ObjectKey, Pet] = {}
        # A lock lives as long as a task holds it or waits for it.
        self._locks: WeakValueDictionary[Content, asyncio.Lock] = WeakValueDictionary()

    def begin(self, pet: Pet) -> None:
        """Remember the Pet before a record is created for it, because its status cannot have the id yet."""
        self._begun[pet.key] = pet

    def find(self, key: ObjectKey) -> Pet | None:
        """Return the Pet with that key after its `begin` and before its `settle`; None otherwise."""
        return self._begun.get(key)

    def settle(self, key: ObjectKey) -> None:
        """Delete all claims of a Pet, because its status has the record's id, or because the Pet is gone."""
        self.release(key)
        self._begun.pop(key, None)

    def claim(self, pet: Pet, id: str) -> None:  # noqa: A002 - the field's name
        """Mark the record with that id as the Pet's."""
        self.release(pet.key)
        self._by_key[pet.key] = (pet.metadata.uid, id)
        self._by_id[id] = pet.key

    def release(self, key: ObjectKey) -> None:
        """Delete the Pet's claim on a record."""
        if (held := self._by_key.pop(key, None)) and self._by_id.get(held[1]) == key:
            del self._by_id[held[1]]

    def id_of(self, pet: Pet) -> str:
        """Return the id of the Pet's record from the Pet's claim or status; "" if neither has one."""
        held = self._by_key.get(pet.key)
        if held is not None and held[0] == pet.metadata.uid:
            return held[1]
        return pet.status.id or ""

    def is_of_another(self, pet: Pet, id: str) -> bool:  # noqa: A002 - the field's name
        """Return whether another Pet owns the record; if two Pets have its id, the older Pet is the owner."""
        holder = self._by_id.get(id)
        if holder is not None and self._by_key[holder][0] != pet.metadata.uid:
            return True
        first = oldest(self._pets.list(index=(BY_ID, id)))
        return first is not None and first.uid != pet.metadata.uid

    @asynccontextmanager
    async def undisturbed(self, contents: Iterable[Content]) -> AsyncIterator[None]:
        """Within the block, keep other tasks from finding or adding records with one of these contents.

        Otherwise one Pet could find a record that a Pet with the same content is just adding.
        """
        # All tasks lock in the same order, so that they cannot deadlock.
        locks = [self._locks.setdefault(content, asyncio.Lock()) for content in sorted(set(contents))]
        async with AsyncExitStack() as stack:
            for lock in locks:
                await stack.enter_async_context(lock)
            yield
