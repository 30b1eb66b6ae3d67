"""Bringing the store to what one Pet asks for: exactly one record, or none."""

from __future__ import annotations

import dataclasses
import datetime
import enum

from apis.petstore.v1beta1.pet import Pet
from controllers.petstore.claims import Claims
from controllers.petstore.notes import Notes
from controllers.petstore.record import Content, noted
from controllers.petstore.search import Search, differs
from petstore.client import KeyRefused, PetStoreClient, UnexpectedAnswer, UnknownPet

__all__ = ["Deed", "Keeper", "Kept"]

_ATTEMPTS = 4
"""How often in a row the store may change between looking and writing."""

_LEAVING = Content("(leaving)", "dog", datetime.date(2000, 1, 1))
"""What a record says for a moment that is found by nothing but its id, before it is deleted.

The store takes it, whatever it makes of what the Pet says."""


class Deed(enum.Enum):
    """What had to be done."""

    NOTHING = enum.auto()
    ADDED = enum.auto()
    UPDATED = enum.auto()
    ADOPTED = enum.auto()
    """A record that was no Pet's has become this one's."""
    CLAIMED = enum.auto()
    """Its record has got its key, and stays the same in all that a person sees."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
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
    Pet of which it cannot have heard: there is nothing with its key, and 3. is for other stores.

    Every method raises PetStoreError; after NoAnswer, what was asked for may have been done, and is found
    the next time. `keep` raises PetGone rather than add or change a record for a Pet that is no more, and
    PetChanged rather than have one say what the Pet said before.
    """

    def __init__(self, store: PetStoreClient, claims: Claims) -> None:
        self._store = store
        self._claims = claims
        self._search = Search(store, claims)

    async def keep(self, notes: Notes, content: Content, *, fresh: bool) -> Kept:
        """Make sure that the store has the Pet once, with that content.

        Args:
            notes: those of the Pet.
            content: what the store is to say.
            fresh: that nothing can ever have been added for it, which spares searches.
        """
        pet = notes.pet
        async with self._claims.undisturbed(filter(None, (content, noted(pet)))):
            for _ in range(_ATTEMPTS - 1):
                try:
                    return await self._keep(notes, content, fresh=fresh)
                except (UnknownPet, KeyRefused):
                    # Removed, or taken by somebody else, since we looked.
                    fresh = False
            return await self._keep(notes, content, fresh=fresh)

    async def _keep(self, notes: Notes, content: Content, *, fresh: bool) -> Kept:
        pet, key = notes.pet, notes.pet.metadata.uid
        if fresh and self._store.knows_keys:
            return await self._add(notes, content, fresh=True)
        found, deed = (None if fresh else await self._search.by_key(pet)), Deed.UPDATED
        if found is None:
            id = self._own_id(pet)  # noqa: A001 - the field's name
            sighting = await self._search.by_content(pet, id, {content, noted(pet) or content})
            found = sighting.known
            if found is not None and found.idempotency_key not in {"", key}:
                # Somebody wrote the id of another's record into the status.
                found, id = None, ""  # noqa: A001
                sighting = await self._search.by_content(pet, "", {content, noted(pet) or content})
            if found is None and id and await self._keep_unseen(notes, id, content):
                return Kept(id, Deed.UPDATED)
            if found is None and sighting.candidate is not None:
                found, deed = sighting.candidate, Deed.ADOPTED
        if found is None:
            return await self._add(notes, content, fresh=fresh)
        self._claims.claim(pet, found.id)
        if not differs(self._store, found, content):
            return Kept(found.id, deed if deed is Deed.ADOPTED else Deed.NOTHING)
        await notes.confirm()
        if deed is Deed.ADOPTED:
            self._claims.begin(notes.pet)
        if not found.idempotency_key:
            await notes.changing(found.id)
        try:
            await self._store.update([content.record(id=found.id, key=key)])
        except (UnknownPet, KeyRefused):
            self._claims.release(pet.key)
            raise
        if deed is Deed.UPDATED and Content.of(found) == content:
            deed = Deed.CLAIMED
        return Kept(found.id, deed)

    async def _add(self, notes: Notes, content: Content, *, fresh: bool) -> Kept:
        await notes.adding(content)
        pet, key = notes.pet, notes.pet.metadata.uid
        self._claims.begin(pet)
        (id,) = await self._store.add([content.record(key=key)])  # noqa: A001 - the field's name
        self._claims.claim(pet, id)
        if not fresh or self._store.knows_keys is None:
            # An older call of ours may have arrived since the search, and made the record what it was then.
            # And where no record has shown yet whether the store knows keys, this one does.
            found = await self._search.by_key(pet)
            if found is not None and differs(self._store, found, content):
                await self._store.update([content.record(id=found.id, key=key)])
        return Kept(id, Deed.ADDED)

    async def _keep_unseen(self, notes: Notes, id: str, content: Content) -> bool:  # noqa: A002
        await notes.confirm()
        if not await self._update_unseen(id, content, notes.pet.metadata.uid):
            return False
        self._claims.claim(notes.pet, id)
        return True

    async def _update_unseen(self, id: str, content: Content, key: str) -> bool:  # noqa: A002
        """Update a record that no search has shown, if it is there and not another's; returns whether.

        Its content may have been changed in any way, and no search of the published contract is by id.
        """
        try:
            await self._store.update([content.record(id=id, key=key)])
        except (UnknownPet, KeyRefused):
            return False
        return True

    async def remove(self, pet: Pet, content: Content | None) -> bool:
        """Make sure that the store has nothing of the Pet; returns whether there was something.

        `content` is what the store was to say; None when that cannot be said.
        """
        told = noted(pet)
        async with self._claims.undisturbed(filter(None, (content, told))):
            doomed = await self._doomed(pet, content, told)
            if doomed:
                await self._store.delete(sorted(doomed))
            # A call of ours, given up by a process that is no more, may have arrived meanwhile.
            for _ in range(_ATTEMPTS):
                late = await self._search.by_key(pet)
                if late is None:
                    return bool(doomed)
                doomed.add(late.id)
                await self._store.delete([late.id])
        raise UnexpectedAnswer(f"the pet {', '.join(sorted(doomed))} was deleted, and is still there")

    async def _doomed(self, pet: Pet, content: Content | None, told: Content | None) -> set[str]:
        """The ids of all records that are this Pet's."""
        key = pet.metadata.uid
        found = await self._search.by_key(pet)
        doomed = {found.id} if found is not None else set()
        id = self._own_id(pet)  # noqa: A001 - the field's name
        if id in doomed:
            return doomed
        contents = {each for each in (content, told) if each is not None}
        if id:
            known = (await self._search.by_content(pet, id, contents)).known
            if known is not None:
                mine = known.idempotency_key in {"", key}
            else:
                # With a key in the store, the record is the one that has it.
                mine = found is None and await self._update_unseen(id, _LEAVING, key)
            if mine:
                doomed.add(id)
        elif found is None and told is not None and self._store.knows_keys is False:
            # Where keys are known, what we added has ours: what looks like it is somebody else's.
            candidate = (await self._search.by_content(pet, "", {told})).candidate
            if candidate is not None:
                doomed.add(candidate.id)
        return doomed

    def _own_id(self, pet: Pet) -> str:
        """The id of the Pet's record; "" when none is known, or it is the id of another Pet's record."""
        id = self._claims.id_of(pet)  # noqa: A001 - the field's name
        return "" if not id or self._claims.is_of_another(pet, id) else id
