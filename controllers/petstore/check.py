"""The check: what was changed or lost where no watch tells of it, in the store and in statuses."""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing

from controllers.petstore.cached import CachedPet, CachedPets
from controllers.petstore.outlook import Outlook
from controllers.petstore.record import Content
from manager.api import ObjectKey
from manager.controller import ChannelSource, Priority
from manager.logs import get_logger
from petstore.client import DeadlinePassed, NoAnswer, PetStoreClient, PetStoreError
from petstore.client import Pet as Record

__all__ = ["StoreCheck"]

_JITTER = 0.1
"""The part of the interval by which it varies: replicas of a cluster's managers do not all come at once."""

_LONGEST = 300.0
"""Seconds that reading the whole store may take."""

_AT_ONCE = 100
"""Records, or Pets, looked at before others get their turn: a millisecond's worth."""

_log = get_logger("petstore")


class StoreCheck:
    """Reads all of the store, time and again, and asks for the Pets whose record is not as it should be.

    One search for all Pets together; of what comes, only the names of the Pets that were seen are kept.
    Records of nobody are left alone: other clusters, and people, may use the same store.
    """

    def __init__(
        self,
        store: PetStoreClient,
        pets: CachedPets,
        channel: ChannelSource,
        outlook: Outlook,
        *,
        interval: float,
        rng: random.Random,
    ) -> None:
        """Checks every `interval` seconds, give or take a tenth."""
        self._store = store
        self._pets = pets
        self._channel = channel
        self._outlook = outlook
        self._interval = interval
        self._rng = rng

    async def run(self) -> None:
        """Check until cancelled, first after one interval: at the start all Pets are looked at anyway."""
        await self._pets.wait_synced()
        while True:
            await asyncio.sleep(self._interval * self._rng.uniform(1 - _JITTER, 1 + _JITTER))
            try:
                await self.check()
            except NoAnswer:
                self._outlook.doubt()
                await self._tell_all()
            except PetStoreError as error:
                _log.warning("the pet store cannot be checked", error=str(error))

    async def check(self) -> None:
        """Look at all records once. Raises PetStoreError."""
        seen: set[ObjectKey] = set()
        try:
            await self._read(seen)
        except TimeoutError:
            raise DeadlinePassed("no further record came in time") from None
        await self._ask_for_lost(seen)

    async def _read(self, seen: set[ObjectKey]) -> None:
        """Read all records, and note whose they are; raises TimeoutError when none come for a while."""
        patience, now = self._store.timeout, asyncio.get_running_loop().time
        records = self._store.search(lenient=True, timeout=max(_LONGEST, patience))
        number = 0
        async with asyncio.timeout(patience) as deadline, aclosing(records):
            async for record in records:
                pet = self._owner(record)
                if pet is not None and pet.key not in seen:
                    seen.add(pet.key)
                    if self._is_wrong(pet, record):
                        self._ask_for(pet)
                number += 1
                if number % _AT_ONCE == 0:
                    deadline.reschedule(now() + patience)
                    await asyncio.sleep(0)

    def _owner(self, record: Record) -> CachedPet | None:
        """The Pet whose record it is."""
        if record.idempotency_key:
            return self._pets.of_uid(record.idempotency_key)
        return min(self._pets.of_id(record.id), key=lambda pet: pet.age, default=None)

    def _is_wrong(self, pet: CachedPet, record: Record) -> bool:
        wanted = pet.wanted
        if wanted is None:
            return False  # it cannot be made right before its spec is
        # A store that has never shown a key is not asked to take one from every Pet.
        lacks_key = not record.idempotency_key and self._store.knows_keys is True
        is_right = pet.id == record.id and Content.of(record) == wanted and not lacks_key
        # Nor does any watch tell of a status that somebody else has written.
        return not is_right or not pet.says_all_is_well

    async def _ask_for_lost(self, seen: set[ObjectKey]) -> None:
        for number, pet in enumerate(self._pets, start=1):
            if pet.key not in seen and pet.wanted is not None:
                self._ask_for(pet)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _tell_all(self) -> None:
        """Have every Pet say that the store does not answer."""
        for number, pet in enumerate(self._pets, start=1):
            if not self._outlook.is_waiting(pet.key):
                self._ask_for(pet)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)

    def _ask_for(self, pet: CachedPet) -> None:
        if not pet.deleting:
            self._channel.send(pet.key, priority=Priority.LOW)
