"""Finding a Pet's record in the store."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from contextlib import aclosing

from apis.petstore.v1beta1.pet import Pet
from controllers.petstore.claims import Claims
from controllers.petstore.record import Content
from petstore.client import Pet as Record
from petstore.client import PetStoreClient, PetType

__all__ = ["Search", "Sighting", "differs"]


@dataclasses.dataclass(slots=True)
class Sighting:
    """What a search by name and type brought."""

    known: Record | None = None
    """The record of the id that was asked for."""
    candidate: Record | None = None
    """A record of one of the contents that were asked for, with no key, and of no Pet."""


class Search:
    """Searches of one store, on behalf of Pets.

    Lenient ones: what somebody else has put there, and no client understands, is no reason to fail.
    """

    def __init__(self, store: PetStoreClient, claims: Claims) -> None:
        self._store = store
        self._claims = claims

    async def by_key(self, pet: Pet) -> Record | None:
        """The record that has the Pet's key: its UID."""
        async with aclosing(self._store.search(keys=[pet.metadata.uid], lenient=True)) as records:
            async for record in records:
                return record
        return None

    async def by_content(self, pet: Pet, id: str, contents: Collection[Content]) -> Sighting:  # noqa: A002 - the field's name
        """Look among the records that are called and of a type as one of `contents`.

        A candidate may have got another owner while the search went on: whoever wants it has to hold
        `Claims.undisturbed`, so that only the store itself can still say no.
        """
        sighting = Sighting()
        if not contents:
            return sighting
        names = sorted({content.name for content in contents})
        types = [PetType(kind) for kind in sorted({content.type for content in contents})]
        async with aclosing(self._store.search(names=names, types=types, lenient=True)) as records:
            async for record in records:
                if record.id == id:
                    sighting.known = record
                    break
                if (
                    sighting.candidate is None
                    and not record.idempotency_key
                    and Content.of(record) in contents
                    and not self._claims.is_of_another(pet, record.id)
                ):
                    sighting.candidate = record
                    if not id:
                        break
        return sighting


def differs(store: PetStoreClient, record: Record, content: Content) -> bool:
    """Whether the record has to be updated to have this content, and a key where the store may know keys."""
    lacks_key = not record.idempotency_key and store.knows_keys is not False
    return Content.of(record) != content or lacks_key
