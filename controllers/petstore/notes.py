"""What a Pet carries so that its record is found again: stored before the pet store hears of it."""

from __future__ import annotations

from apis.petstore.v1beta1.pet import Pet
from controllers.petstore.record import ADDED_AS, Content, noted
from manager.api import ObjectKey
from manager.client import Client
from manager.kube.errors import NotFound

__all__ = [
    "FINALIZER",
    "OLD_FINALIZER",
    "OURS",
    "Notes",
    "PetChanged",
    "PetGone",
    "is_not_there",
    "was_begun",
]

FINALIZER = "pet.petstore.example.com/finalizer"

OLD_FINALIZER = "pet.petstore.example.com"
"""Left by the operator that this one takes over from; it knows no record that we would not find."""

OURS = frozenset({FINALIZER, OLD_FINALIZER})


class PetGone(Exception):
    """The API server does not have this very Pet any more, or is to let it go; a cache may be behind."""


class PetChanged(Exception):
    """The API server has another spec of the Pet than the cache. `pet` is what the server has."""

    def __init__(self, pet: Pet) -> None:
        super().__init__(f"Pet {pet.key} has been changed, and the cache has not heard of it yet")
        self.pet = pet


class Notes:
    """The notes of one Pet. `pet` is the Pet as it was last stored.

    What is read from a cache may be long gone: the finalizer that it shows holds nothing then. So before a
    record is added for the Pet, or changed, the API server itself has said that it is there, and says this.
    """

    def __init__(self, client: Client, pet: Pet) -> None:
        self._client = client
        self._confirmed = False
        self.pet = pet

    async def begin(self, content: Content | None) -> None:
        """See to it that the Pet does not go without us.

        With a content, a record of it may be added soon, unless an older note speaks of one already.
        """
        metadata = self.pet.metadata
        if FINALIZER in metadata.finalizers and OLD_FINALIZER not in metadata.finalizers:
            return
        metadata.finalizers = [*(name for name in metadata.finalizers if name not in OURS), FINALIZER]
        if content is not None and noted(self.pet) is None:
            metadata.annotations[ADDED_AS] = content.note()
        # A change of finalizers demands the version that was read.
        self.pet = await self._client.patch(self.pet)
        self._confirmed = True

    async def adding(self, content: Content) -> None:
        """A record of this content is about to be added. Raises PetGone and PetChanged."""
        await self.confirm()
        if noted(self.pet) != content:
            self.pet.metadata.annotations[ADDED_AS] = content.note()
            self.pet = await self._client.patch(self.pet)

    async def confirm(self, *, again: bool = False) -> None:
        """Ask the API server, unless it has answered already, whether this very Pet is there, and to stay.

        Raises PetGone; PetChanged when it asks for something else.
        """
        if self._confirmed and not again:
            return
        try:
            found = await self._client.uncached.get(Pet, self.pet.key)
        except NotFound as error:
            if not is_not_there(error, self.pet.key):
                raise
            raise PetGone from None
        if found.metadata.uid != self.pet.metadata.uid or found.metadata.deletion_timestamp is not None:
            raise PetGone
        if found.metadata.generation != self.pet.metadata.generation:
            raise PetChanged(found)
        self._confirmed = True

    async def changing(self, id: str) -> None:  # noqa: A002 - the field's name
        """The record of this id is about to be changed, and will not be found by what it said before."""
        if self.pet.status.id != id:
            self.pet.status.id = id
            self.pet = await self._client.status.patch(self.pet)


def was_begun(pet: Pet) -> bool:
    """Whether anything may have been added for it, by us or by those before us."""
    return ADDED_AS in pet.metadata.annotations or not OURS.isdisjoint(pet.metadata.finalizers)


def is_not_there(error: NotFound, key: ObjectKey) -> bool:
    """Whether it is that Pet which was not found, and not the kind, say while its definition is replaced."""
    return error.details.get("name") == key.name
