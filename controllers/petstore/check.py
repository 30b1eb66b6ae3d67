"""The periodic check of the store, whose changes no watch reports, and of the Pets' statuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from pydantic import ValidationError

from apis.petstore.v1beta1.pet import Pet
from controllers.petstore.availability import StoreAvailability
from controllers.petstore.birthday import InvalidBirthday
from controllers.petstore.claims import BY_ID, BY_UID, oldest
from controllers.petstore.record import Content, wanted
from manager import Informer, ObjectKey, Portions
from manager.cache import Record as CachedPet
from manager.telemetry.logs import get_logger
from petstore.errors import DeadlinePassed, NoAnswer, PetStoreError
from petstore.pet import Pet as Record

if TYPE_CHECKING:
    from petstore.client import PetStoreClient

_LONGEST = 300.0
"""The time limit, in seconds, for reading the whole store, unless the client's timeout is longer."""

_AT_ONCE = 50
"""The number of records between pauses for other tasks, about a millisecond's work."""

_log = get_logger("petstore")


class StoreCheck:
    """A check that reads the whole store and queues the Pets whose record or status is wrong.

    One search covers all Pets, and only the names of checked Pets are stored. Records without a Pet are not
    changed: other clusters and other programs may use the same store.
    """

    def __init__(
        self,
        store: PetStoreClient,
        pets: Informer,
        ask_for: Callable[[ObjectKey], None],
        availability: StoreAvailability,
    ) -> None:
        self._store = store
        self._pets = pets
        self._ask_for = ask_for
        self._outlook = availability

    async def run(self) -> None:
        """Check once. Queue all Pets if the store does not answer, and log the store's other errors."""
        try:
            await self.check()
        except NoAnswer:
            self._outlook.doubt()
            # The status of every Pet must say that the store does not answer.
            await self._ask_for_all(lambda pet: not self._outlook.is_waiting(pet.key))
        except PetStoreError as error:
            _log.warning("cannot compare the pets in the pet store with the Pet objects", error=str(error))

    async def check(self) -> None:
        """Queue the Pets whose record is missing or wrong, or whose status is wrong. Raises PetStoreError."""
        seen: set[ObjectKey] = set()
        try:
            await self._read(seen)
        except TimeoutError:
            raise DeadlinePassed("no further record came in time") from None
        await self._ask_for_all(lambda pet: pet.key not in seen and _read(pet) is not None)

    async def _read(self, seen: set[ObjectKey]) -> None:
        """Read all records, and queue Pets with a wrong one; raise TimeoutError if no more records come."""
        patience, now = self._store.timeout, asyncio.get_running_loop().time
        records = self._store.search(lenient=True, timeout=max(_LONGEST, patience))
        number, portions = 0, Portions()
        async with asyncio.timeout(patience) as deadline, aclosing(records):
            async for record in records:
                deadline.reschedule(now() + patience)
                # The key identifies a record's Pet; a record without a key is identified by its id.
                key = record.idempotency_key
                cached = oldest(self._pets.list(index=(BY_UID, key) if key else (BY_ID, record.id)))
                if cached is not None and cached.key not in seen:
                    await portions.begin(len(cached.raw))
                    seen.add(cached.key)
                    # A Pet with an invalid spec is skipped: its record cannot be corrected.
                    if not cached.deleting and (pet := _read(cached)) and self._is_wrong(pet, record):
                        self._ask_for(pet.key)
                number += 1
                if number % _AT_ONCE == 0:
                    await asyncio.sleep(0)

    def _is_wrong(self, pet: Pet, record: Record) -> bool:
        status = pet.status
        # A store that has never returned a key may not support keys, so a missing key is no error.
        lacks_key = not record.idempotency_key and self._store.knows_keys is True
        true = {each.type for each in status.conditions if each.status == "True"}
        return (
            status.id != record.id
            or Content.of(record) != wanted(pet)
            or lacks_key
            # A Pet whose status is outdated or not ready is reconciled again.
            or status.observed_generation != pet.metadata.generation
            or not true >= {"Ready", "StoreReachable"}
        )

    async def _ask_for_all(self, is_meant: Callable[[CachedPet], bool]) -> None:
        portions = Portions()
        for pet in self._pets.list():
            await portions.begin(len(pet.raw))
            if not pet.deleting and is_meant(pet):
                self._ask_for(pet.key)


def _read(cached: CachedPet) -> Pet | None:
    try:
        pet = cached.decode(Pet)
        wanted(pet)
    except (InvalidBirthday, ValidationError):
        return None  # also for an invalid Pet: the operator reports that in its status
    return pet
