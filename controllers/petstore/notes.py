"""What a Pet carries so that its record is found again: stored before the pet store hears of it."""

from __future__ import annotations

from apis.petstore.v1beta1.pet import Pet
from controllers.petstore.record import ADDED_AS, Content, noted
from manager.client import Client

__all__ = ["FINALIZER", "OLD_FINALIZER", "OURS", "Notes", "was_begun"]

FINALIZER = "pet.petstore.example.com/finalizer"

OLD_FINALIZER = "pet.petstore.example.com"
"""Left by the operator that this one takes over from; it knows no record that we would not find."""

OURS = frozenset({FINALIZER, OLD_FINALIZER})


class Notes:
    """The notes of one Pet. `pet` is the Pet as it was last stored."""

    def __init__(self, client: Client, pet: Pet) -> None:
        self._client = client
        self.pet = pet

    async def begin(self, content: Content | None) -> None:
        """See to it that the Pet does not go without us.

        With a content, a record of it may be added soon, unless an older note speaks of one already.
        """
        metadata = self.pet.metadata
        if FINALIZER not in metadata.finalizers or OLD_FINALIZER in metadata.finalizers:
            metadata.finalizers = [*(name for name in metadata.finalizers if name not in OURS), FINALIZER]
        if content is not None and noted(self.pet) is None:
            metadata.annotations[ADDED_AS] = content.note()
        self.pet = await self._client.patch(self.pet)

    async def adding(self, content: Content) -> None:
        """A record of this content is about to be added."""
        if noted(self.pet) != content:
            self.pet.metadata.annotations[ADDED_AS] = content.note()
            self.pet = await self._client.patch(self.pet)

    async def changing(self, id: str) -> None:  # noqa: A002 - the field's name
        """The record of this id is about to be changed, and will not be found by what it said before."""
        if self.pet.status.id != id:
            self.pet.status.id = id
            self.pet = await self._client.status.patch(self.pet)


def was_begun(pet: Pet) -> bool:
    """Whether anything may have been added for it, by us or by those before us."""
    return ADDED_AS in pet.metadata.annotations or not OURS.isdisjoint(pet.metadata.finalizers)
