"""Whose a record of the store is, so that no two Pets ever take the same one for theirs."""

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
"""How Pets are found in the cache. Several have the same id only after somebody wrote it there."""


class _Metadata(msgspec.Struct, rename="camel"):
    creation_timestamp: str | None = None


class _Created(msgspec.Struct):
    metadata: _Metadata


def oldest(pets: Iterable[Record]) -> Record | None:
    """The Pet that was there first, also where nothing else of it can be read."""
    return min(pets, key=_age, default=None)


def _age(pet: Record) -> tuple[str, str]:
    return msgspec.json.decode(pet.raw, type=_Created).metadata.creation_timestamp or "", pet.uid


class Claims:
    """A record belongs to the Pet whose status has its id.

    Between the moment that a record is found or added and the moment that the status says so, the claim is
    noted here. The store itself knows it by the key; this is for stores that know no keys.
    """

    def __init__(self, pets: Informer) -> None:
        self._pets = pets
        self._by_key: dict[ObjectKey, tuple[str, str]] = {}  # UID and id
        self._by_id: dict[str, ObjectKey] = {}
        self._begun: dict[ObjectKey, Pet] = {}
        # Each as long as somebody holds it, or waits for it.
        self._locks: WeakValueDictionary[Content, asyncio.Lock] = WeakValueDictionary()

    def begin(self, pet: Pet) -> None:
        """Note that a record is about to become that Pet's, of which the API server knows nothing yet."""
        self._begun[pet.key] = pet

    def begun(self, key: ObjectKey) -> Pet | None:
        """The Pet of that name which may have got a record that its status does not tell of."""
        return self._begun.get(key)

    def settle(self, key: ObjectKey) -> None:
        """Forget all that was noted of a Pet: its status has it now, or it is gone."""
        self.release(key)
        self._begun.pop(key, None)

    def claim(self, pet: Pet, id: str) -> None:  # noqa: A002 - the field's name
        """Note that the record is that Pet's, and no other one."""
        self.release(pet.key)
        self._by_key[pet.key] = (pet.metadata.uid, id)
        self._by_id[id] = pet.key

    def release(self, key: ObjectKey) -> None:
        """Forget which record is the Pet's."""
        if (held := self._by_key.pop(key, None)) and self._by_id.get(held[1]) == key:
            del self._by_id[held[1]]

    def id_of(self, pet: Pet) -> str:
        """The id of the Pet's record, by its status or what is noted here; "" when neither has one."""
        held = self._by_key.get(pet.key)
        if held is not None and held[0] == pet.metadata.uid:
            return held[1]
        return pet.status.id or ""

    def is_of_another(self, pet: Pet, id: str) -> bool:  # noqa: A002 - the field's name
        """Whether the record is another Pet's. Where two have the same id, it is that of the older one."""
        holder = self._by_id.get(id)
        if holder is not None and self._by_key[holder][0] != pet.metadata.uid:
            return True
        first = oldest(self._pets.list(index=(BY_ID, id)))
        return first is not None and first.uid != pet.metadata.uid

    @asynccontextmanager
    async def undisturbed(self, contents: Iterable[Content]) -> AsyncIterator[None]:
        """While this lasts, nobody else looks for a record with one of these contents, or adds one.

        Else one Pet could find the record that another one, equal to it, is just adding.
        """
        # In one order for all, so that nobody waits in a circle.
        locks = [self._locks.setdefault(content, asyncio.Lock()) for content in sorted(set(contents))]
        async with AsyncExitStack() as stack:
            for lock in locks:
                await stack.enter_async_context(lock)
            yield
