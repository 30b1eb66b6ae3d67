"""The management of a Pet's record in the store: to find, add, update and remove it."""

from __future__ import annotations

import datetime
from contextlib import aclosing
from typing import TYPE_CHECKING, Literal, NamedTuple

from apis.petstore.v1beta1.pet import Pet
from controllers.petstore.claims import Claims
from controllers.petstore.record import ADDED_AS, Content, noted
from manager import Context
from petstore.errors import KeyRefused, UnexpectedAnswer, UnknownPet
from petstore.pet import Pet as Record
from petstore.pet import PetType

if TYPE_CHECKING:
    from petstore.client import PetStoreClient

_ATTEMPTS = 4
"""The number of consecutive attempts while the store changes between search and write."""

_LEAVING = Content("(leaving)", "dog", datetime.date(2000, 1, 1))
"""A temporary content, written before the deletion of a record that only its id identifies.

The store accepts this content, even if it refuses the Pet's."""


Deed = Literal["nothing", "added", "updated", "adopted"]
"""The result for Events; `adopted` means that a record without an owner became this Pet's."""


class StoredRecord(NamedTuple):
    """The id of a Pet's record, and how the record got its present content."""

    id: str
    deed: Deed


class Keeper:
    """Keeper of the Pets' records: it finds, adds, updates and removes a Pet's record, even after failures.

    A Pet's record is the first of these:

    1. the record with the Pet's UID as its key;
    2. the record whose id is in the Pet's status, unless it is another Pet's;
    3. a record without key and owner whose content equals the Pet's spec or annotation. Such a record exists
       if a store without keys has added it, and the store's response was lost.

    If none of these exists, the keeper adds a record. In a store with keys, there is no search for a new Pet:
    no record has its key, and case 3 is for other stores. All searches are lenient, so that invalid records
    of other programs cause no failure.

    Every method raises PetStoreError. After NoAnswer, the store may have processed the request; the next
    attempt finds out.
    """

    def __init__(self, store: PetStoreClient, claims: Claims) -> None:
        self._store = store
        self._claims = claims

    async def keep(self, pet: Pet, content: Content, ctx: Context, *, fresh: bool) -> StoredRecord:
        """Make sure that the store has exactly one record of the Pet, with that content.

        `fresh` means that the Pet cannot have a record yet; this saves searches.

        The cache may still show a Pet that was deleted. So `ctx.confirm` reads the Pet from the API server
        before a record is added or changed, and raises if the Pet was deleted or changed.
        """
        async with self._claims.undisturbed(filter(None, (content, noted(pet)))):
            for _ in range(_ATTEMPTS - 1):
                try:
                    return await self._keep(pet, content, ctx, fresh=fresh)
                except (UnknownPet, KeyRefused):
                    # Another client has removed the record, or taken its key, in the meantime.
                    fresh = False
            return await self._keep(pet, content, ctx, fresh=fresh)

    async def _keep(self, pet: Pet, content: Content, ctx: Context, *, fresh: bool) -> StoredRecord:
        if fresh and self._store.knows_keys:
            return await self._add(pet, content, ctx, fresh=True)
        found, adopted = (None if fresh else await self._by_key(pet)), False
        if found is None:
            id = self._own_id(pet)  # noqa: A001 - the field's name
            found, candidate = await self._by_content(pet, id, content, noted(pet))
            if found is not None and found.idempotency_key not in {"", pet.metadata.uid}:
                # The status has the id of another Pet's record.
                id = ""  # noqa: A001
                found, candidate = await self._by_content(pet, "", content, noted(pet))
            if found is None and id:
                await ctx.confirm(unchanged=True)
                if await self._update_unseen(pet, id, content):
                    self._claims.claim(pet, id)
                    return StoredRecord(id, "updated")
            if found is None and candidate is not None:
                found, adopted = candidate, True
        if found is None:
            return await self._add(pet, content, ctx, fresh=fresh)
        return await self._update(pet, found, content, ctx, adopted=adopted)

    async def _update(
        self, pet: Pet, found: Record, content: Content, ctx: Context, *, adopted: bool
    ) -> StoredRecord:
        # A record that only gets its key looks unchanged to users.
        deed: Deed = "adopted" if adopted else "nothing" if Content.of(found) == content else "updated"
        self._claims.claim(pet, found.id)
        if not self._differs(found, content):
            return StoredRecord(found.id, deed)
        await ctx.confirm(unchanged=True)
        if adopted:
            self._claims.begin(pet)
        if not found.idempotency_key and pet.status.id != found.id:
            pet.status.id = found.id  # a search for the old content will not find it
            await ctx.write_status()
        try:
            await self._store.update([content.record(id=found.id, key=pet.metadata.uid)])
        except (UnknownPet, KeyRefused):
            self._claims.release(pet.key)
            raise
        return StoredRecord(found.id, deed)

    async def _add(self, pet: Pet, content: Content, ctx: Context, *, fresh: bool) -> StoredRecord:
        await ctx.confirm(unchanged=True)
        if noted(pet) != content:
            pet.metadata.annotations[ADDED_AS] = content.note()
            await ctx.patch()
        self._claims.begin(pet)
        key = pet.metadata.uid
        (id,) = await self._store.add([content.record(key=key)])  # noqa: A001 - the field's name
        self._claims.claim(pet, id)
        if not fresh or self._store.knows_keys is None:
            # An older call of ours may have arrived since the search, and changed the record back. If no
            # record has yet shown whether the store supports keys, this one does.
            found = await self._by_key(pet)
            if found is not None and self._differs(found, content):
                await self._store.update([content.record(id=found.id, key=key)])
        return StoredRecord(id, "added")

    async def remove(self, pet: Pet, content: Content | None) -> bool:
        """Make sure that the store has no record of the Pet; return whether it had one.

        `content` is the record's desired content; None if the spec is invalid.
        """
        told = noted(pet)
        async with self._claims.undisturbed(filter(None, (content, told))):
            doomed = await self._doomed(pet, content, told)
            if doomed:
                await self._store.delete(sorted(doomed))
            # A late call from an earlier process of ours may have arrived in the meantime.
            for _ in range(_ATTEMPTS):
                late = await self._by_key(pet)
                if late is None:
                    return bool(doomed)
                doomed.add(late.id)
                await self._store.delete([late.id])
        raise UnexpectedAnswer(f"the pet {', '.join(sorted(doomed))} was deleted, and is still there")

    async def _doomed(self, pet: Pet, content: Content | None, told: Content | None) -> set[str]:
        """Return the ids of all records of this Pet; `told` is the content in the Pet's annotation."""
        key = pet.metadata.uid
        found = await self._by_key(pet)
        doomed = {found.id} if found is not None else set()
        id = self._own_id(pet)  # noqa: A001 - the field's name
        if id in doomed:
            return doomed
        if id:
            known, _ = await self._by_content(pet, id, content, told)
            if known is not None:
                mine = known.idempotency_key in {"", key}
            else:
                # If a record has the Pet's key, the record is the Pet's.
                mine = found is None and await self._update_unseen(pet, id, _LEAVING)
            if mine:
                doomed.add(id)
        elif found is None and told is not None and self._store.knows_keys is False:
            # In a store with keys, our record has our key, so a similar record without a key is not ours.
            _, candidate = await self._by_content(pet, "", told)
            if candidate is not None:
                doomed.add(candidate.id)
        return doomed

    def _own_id(self, pet: Pet) -> str:
        """Return the id of the Pet's record; "" if it is unknown, or if the record is another Pet's."""
        id = self._claims.id_of(pet)  # noqa: A001 - the field's name
        return "" if not id or self._claims.is_of_another(pet, id) else id

    async def _update_unseen(self, pet: Pet, id: str, content: Content) -> bool:  # noqa: A002
        """Update a record that no search has found, and return whether that succeeded.

        It fails if the record is missing or another Pet's. The published API has no search by id.
        """
        try:
            await self._store.update([content.record(id=id, key=pet.metadata.uid)])
        except (UnknownPet, KeyRefused):
            return False
        return True

    async def _by_key(self, pet: Pet) -> Record | None:
        async with aclosing(self._store.search(keys=[pet.metadata.uid], lenient=True)) as records:
            return await anext(records, None)

    async def _by_content(
        self,
        pet: Pet,
        id: str,  # noqa: A002
        *said: Content | None,
    ) -> tuple[Record | None, Record | None]:
        """Return the record with that id, and a record that has no key, no owner, and a content in `said`.

        It searches by the names and types in `said`. During the search, another Pet may claim the second
        record, except inside of `Claims.undisturbed`; the store may still refuse a write of the record.
        """
        candidate, contents = None, set(filter(None, said))
        if not contents:
            return None, None
        names = sorted({content.name for content in contents})
        types = [PetType(kind) for kind in sorted({content.type for content in contents})]
        async with aclosing(self._store.search(names=names, types=types, lenient=True)) as records:
            async for record in records:
                if record.id == id:
                    return record, candidate
                if (
                    candidate is None
                    and not record.idempotency_key
                    and Content.of(record) in contents
                    and not self._claims.is_of_another(pet, record.id)
                ):
                    candidate = record
                    if not id:
                        break
        return None, candidate

    def _differs(self, record: Record, content: Content) -> bool:
        lacks_key = not record.idempotency_key and self._store.knows_keys is not False
        return Content.of(record) != content or lacks_key
