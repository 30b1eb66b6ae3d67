"""The check: what was changed or lost where no watch tells of it, in the store and in statuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from pydantic import ValidationError

from apis.petstore.v1beta1.pet import Pet
from controllers.petstore.birthday import InvalidBirthday
from controllers.petstore.claims import BY_ID, BY_UID, oldest
from controllers.petstore.outlook import Outlook
from controllers.petstore.record import Content, wanted
from manager import Informer, ObjectKey, Portions
from manager.cache import Record as CachedPet
from manager.telemetry.logs import get_logger
from petstore.errors import DeadlinePassed, NoAnswer, PetStoreError
from petstore.pet import Pet as Record

if TYPE_CHECKING:
    from petstore.client import PetStoreClient

_LONGEST = 300.0
"""Seconds that reading the whole store may take."""

_AT_ONCE = 50
"""Records looked at before others get their turn: a millisecond's worth."""

_log = get_logger("petstore")


class StoreCheck:
    """Reads all of the store, and asks for the Pets whose record is not as it should be.

    One search for all Pets together; of what comes, only the names of the Pets that were seen are kept.
    Records of nobody are left alone: other clusters, and people, may use the same store.
    """

    def __init__(
        self,
        store: PetStoreClient,
        pets: Informer,
        ask_for: Callable[[ObjectKey], None],
        outlook: Outlook,
    ) -> None:
        self._store = store
        self._pets = pets
        self._ask_for = ask_for
        self._outlook = outlook

    async def run(self) -> None:
        """Check once, and say what came of it."""
        try:
            await self.check()
        except NoAnswer:
            self._outlook.doubt()
            # Every Pet is to say that the store does not answer.
            await self._ask_for_all(lambda pet: not self._outlook.is_waiting(pet.key))
        except PetStoreError as error:
            _log.warning("the pet store cannot be checked", error=str(error))

    async def check(self) -> None:
        """Look at all records once. Raises PetStoreError."""
        seen: set[ObjectKey] = set()
        try:
            await self._read(seen)
        except TimeoutError:
            raise DeadlinePassed("no further record came in time") from None
        await self._ask_for_all(lambda pet: pet.key not in seen and _read(pet) is not None)

    async def _read(self, seen: set[ObjectKey]) -> None:
        """Read all records, and note whose they are; raises TimeoutError when none come for a while."""
        patience, now = self._store.timeout, asyncio.get_running_loop().time
        records = self._store.search(lenient=True, timeout=max(_LONGEST, patience))
        number, portions = 0, Portions()
        async with asyncio.timeout(patience) as deadline, aclosing(records):
            async for record in records:
                # A record's Pet is the one that it has the key of, else the one that has its id.
                key = record.idempotency_key
                cached = oldest(self._pets.list(index=(BY_UID, key) if key else (BY_ID, record.id)))
                if cached is not None and cached.key not in seen:
                    await portions.begin(len(cached.raw))
                    seen.add(cached.key)
                    # What cannot be made right before its spec is, is left alone.
                    if not cached.deleting and (pet := _read(cached)) and self._is_wrong(pet, record):
                        self._ask_for(pet.key)
                number += 1
                if number % _AT_ONCE == 0:
                    deadline.reschedule(now() + patience)
                    await asyncio.sleep(0)

    def _is_wrong(self, pet: Pet, record: Record) -> bool:
        status = pet.status
        # A store that has never shown a key is not asked to take one from every Pet.
        lacks_key = not record.idempotency_key and self._store.knows_keys is True
        true = {each.type for each in status.conditions if each.status == "True"}
        return (
            status.id != record.id
            or Content.of(record) != wanted(pet)
            or lacks_key
            # Nor does any watch tell of a status that somebody else has written.
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
    """A Pet, as far as it can be said what the store is to have of it."""
    try:
        pet = cached.decode(Pet)
        wanted(pet)
    except (InvalidBirthday, ValidationError):
        return None  # nor when it is not of a Pet's shape: the operator says so to whoever made it
    return pet
