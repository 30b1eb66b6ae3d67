"""Bringing the store to what one Pet asks for: exactly one record, or none."""

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
"""How often in a row the store may change between looking and writing."""

_LEAVING = Content("(leaving)", "dog", datetime.date(2000, 1, 1))
"""What a record says for a moment that is found by nothing but its id, before it is deleted.

The store takes it, whatever it makes of what the Pet says."""


Deed = Literal["nothing", "added", "updated", "adopted"]
"""What a person is told: `adopted` is a record that was no Pet's, and has become this one's."""


class Kept(NamedTuple):
    """The record of a Pet, as it is now."""

    id: str
    deed: Deed


class Keeper:
    """Knows how to find a Pet's record, whatever went wrong before, and what to do about it.

    Where to look, in this order:

    1. the record that has the Pet's UID for its key;
    2. the record whose id the Pet's status has, unless it is another Pet's;
    3. a record without a key that is no Pet's, and says just what this Pet says, or what its annotation has
       been asked to be added: an answer that was lost, in a store that knows no keys.

    Only when there is none of these, one is added. A store that is known to know keys is not searched for a
    Pet of which it cannot have heard: there is nothing with its key, and 3. is for other stores. All searches
    are lenient: what somebody else has put there, and no client understands, is no reason to fail.

    Every method raises PetStoreError; after NoAnswer, what was asked for may have been done, and is found
    the next time.
    """

    def __init__(self, store: PetStoreClient, claims: Claims) -> None:
        self._store = store
        self._claims = claims

    async def keep(self, pet: Pet, content: Content, ctx: Context, *, fresh: bool) -> Kept:
        """Make sure that the store has the Pet once, with that content.

        `fresh` says that nothing can ever have been added for it, which spares searches.

        What is read from a cache may be long gone, and the finalizer that it shows holds nothing then. So
        before a record is added or changed, the API server itself has said that the Pet is there, and says
        this: `ctx.confirm` raises rather than let it be done.
        """
        async with self._claims.undisturbed(filter(None, (content, noted(pet)))):
            for _ in range(_ATTEMPTS - 1):
                try:
                    return await self._keep(pet, content, ctx, fresh=fresh)
                except (UnknownPet, KeyRefused):
                    # Removed, or taken by somebody else, since we looked.
                    fresh = False
            return await self._keep(pet, content, ctx, fresh=fresh)

    async def _keep(self, pet: Pet, content: Content, ctx: Context, *, fresh: bool) -> Kept:
        if fresh and self._store.knows_keys:
            return await self._add(pet, content, ctx, fresh=True)
        found, adopted = (None if fresh else await self._by_key(pet)), False
        if found is None:
            id = self._own_id(pet)  # noqa: A001 - the field's name
            found, candidate = await self._by_content(pet, id, content, noted(pet))
            if found is not None and found.idempotency_key not in {"", pet.metadata.uid}:
                # Somebody wrote the id of another's record into the status.
                id = ""  # noqa: A001
                found, candidate = await self._by_content(pet, "", content, noted(pet))
            if found is None and id:
                await ctx.confirm(unchanged=True)
                if await self._update_unseen(pet, id, content):
                    self._claims.claim(pet, id)
                    return Kept(id, "updated")
            if found is None and candidate is not None:
                found, adopted = candidate, True
        if found is None:
            return await self._add(pet, content, ctx, fresh=fresh)
        return await self._update(pet, found, content, ctx, adopted=adopted)

    async def _update(
        self, pet: Pet, found: Record, content: Content, ctx: Context, *, adopted: bool
    ) -> Kept:
        # To get its key changes nothing that a person sees.
        deed: Deed = "adopted" if adopted else "nothing" if Content.of(found) == content else "updated"
        self._claims.claim(pet, found.id)
        if not self._differs(found, content):
            return Kept(found.id, deed)
        await ctx.confirm(unchanged=True)
        if adopted:
            self._claims.begin(pet)
        if not found.idempotency_key and pet.status.id != found.id:
            pet.status.id = found.id  # it will not be found by what it said before
            await ctx.write_status()
        try:
            await self._store.update([content.record(id=found.id, key=pet.metadata.uid)])
        except (UnknownPet, KeyRefused):
            self._claims.release(pet.key)
            raise
        return Kept(found.id, deed)

    async def _add(self, pet: Pet, content: Content, ctx: Context, *, fresh: bool) -> Kept:
        await ctx.confirm(unchanged=True)
        if noted(pet) != content:
            pet.metadata.annotations[ADDED_AS] = content.note()
            await ctx.patch()
        self._claims.begin(pet)
        key = pet.metadata.uid
        (id,) = await self._store.add([content.record(key=key)])  # noqa: A001 - the field's name
        self._claims.claim(pet, id)
        if not fresh or self._store.knows_keys is None:
            # An older call of ours may have arrived since the search, and made the record what it was then.
            # And where no record has shown yet whether the store knows keys, this one does.
            found = await self._by_key(pet)
            if found is not None and self._differs(found, content):
                await self._store.update([content.record(id=found.id, key=key)])
        return Kept(id, "added")

    async def remove(self, pet: Pet, content: Content | None) -> bool:
        """Make sure that the store has nothing of the Pet; returns whether there was something.

        `content` is what the store was to say; None when that cannot be said.
        """
        told = noted(pet)
        async with self._claims.undisturbed(filter(None, (content, told))):
            doomed = await self._doomed(pet, content, told)
            if doomed:
                await self._store.delete(sorted(doomed))
            # A call of ours, given up by a process that has ended, may have arrived meanwhile.
            for _ in range(_ATTEMPTS):
                late = await self._by_key(pet)
                if late is None:
                    return bool(doomed)
                doomed.add(late.id)
                await self._store.delete([late.id])
        raise UnexpectedAnswer(f"the pet {', '.join(sorted(doomed))} was deleted, and is still there")

    async def _doomed(self, pet: Pet, content: Content | None, told: Content | None) -> set[str]:
        """The ids of all records that are this Pet's."""
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
                # With a key in the store, the record is the one that has it.
                mine = found is None and await self._update_unseen(pet, id, _LEAVING)
            if mine:
                doomed.add(id)
        elif found is None and told is not None and self._store.knows_keys is False:
            # Where keys are known, what we added has ours: what looks like it is somebody else's.
            _, candidate = await self._by_content(pet, "", told)
            if candidate is not None:
                doomed.add(candidate.id)
        return doomed

    def _own_id(self, pet: Pet) -> str:
        """The id of the Pet's record; "" when none is known, or it is the id of another Pet's record."""
        id = self._claims.id_of(pet)  # noqa: A001 - the field's name
        return "" if not id or self._claims.is_of_another(pet, id) else id

    async def _update_unseen(self, pet: Pet, id: str, content: Content) -> bool:  # noqa: A002
        """Update a record that no search has shown, if it is there and not another's; returns whether.

        Its content may have been changed in any way, and no search of the published contract is by id.
        """
        try:
            await self._store.update([content.record(id=id, key=pet.metadata.uid)])
        except (UnknownPet, KeyRefused):
            return False
        return True

    async def _by_key(self, pet: Pet) -> Record | None:
        """The record that has the Pet's key: its UID."""
        async with aclosing(self._store.search(keys=[pet.metadata.uid], lenient=True)) as records:
            return await anext(records, None)

    async def _by_content(
        self,
        pet: Pet,
        id: str,  # noqa: A002
        *said: Content | None,
    ) -> tuple[Record | None, Record | None]:
        """The record of that id, and one with no key and of no Pet that says the same as one of `said`.

        Looks among those that are called and of a type as one of these. The second may have got another
        owner while the search went on: whoever wants it has to hold `Claims.undisturbed`, so that only the
        store itself can still say no.
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
        """Whether the record has to be updated, to say this or to get a key where the store may know them."""
        lacks_key = not record.idempotency_key and self._store.knows_keys is not False
        return Content.of(record) != content or lacks_key
