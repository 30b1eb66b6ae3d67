"""What a Pet's status and its Events say."""

from __future__ import annotations

from apis.petstore.v1beta1.pet import Pet
from controllers.conditions import condition
from controllers.petstore.keeper import Deed, Kept
from controllers.petstore.record import Content
from manager import clock
from manager.api import Condition, ConditionStatus, find_condition, set_condition
from manager.client import Client
from manager.events import EventRecorder

__all__ = ["Reporter"]

_MESSAGE_LENGTH = 1000
"""Characters of what a store says that are passed on."""


class Reporter:
    """Writes statuses, each only if it differs, and Events, each once for what it tells of."""

    def __init__(self, client: Client, events: EventRecorder, *, address: str) -> None:
        """`address` is where the store is, for people to read."""
        self._client = client
        self._events = events
        self._address = address

    async def kept(self, pet: Pet, content: Content, kept: Kept) -> None:
        """The store has the Pet."""
        self._announce(pet, content, kept)
        message = f"the store has it as {kept.id}"
        await self._write(
            pet, [condition(pet, "Ready", "True", "InStore", message), self._reachable(pet)], id=kept.id
        )

    def removed(self, pet: Pet) -> None:
        """The store no longer has the Pet, which is about to go itself."""
        self._events.event(pet, "Normal", "Removed", f"Removed {pet.spec.name} from the pet store")

    async def no_answer(self, pet: Pet) -> None:
        """The store has not answered. The same from one attempt to the next, so that they write nothing."""
        # Without details: those differ each time, and the log has them.
        message = f"the pet store at {self._address} does not answer; it is asked again until it does"
        if not self._was_unreachable(pet):
            self._events.event(pet, "Warning", "StoreUnreachable", message[0].upper() + message[1:])
        await self._write(
            pet,
            [
                condition(pet, "Ready", _after_no_answer(pet), "StoreUnreachable", message),
                condition(pet, "StoreReachable", "False", "NoAnswer", message),
            ],
        )

    async def impossible(self, pet: Pet, reason: str, message: str, *, answered: bool) -> None:
        """The Pet is not what a store can have; `answered` says whether the store said so."""
        message = message[:_MESSAGE_LENGTH]
        ready = find_condition(pet.status.conditions, "Ready")
        if ready is None or (ready.reason, ready.message) != (reason, message):
            self._events.event(pet, "Warning", reason, message)
        conditions = [condition(pet, "Ready", "False", reason, message)]
        await self._write(pet, [*conditions, self._reachable(pet)] if answered else conditions)

    async def failed(self, pet: Pet, message: str) -> None:
        """The store answered something that nobody expected."""
        message = message[:_MESSAGE_LENGTH]
        ready = find_condition(pet.status.conditions, "Ready")
        if ready is None or ready.reason != "StoreFailed":
            self._events.event(pet, "Warning", "StoreFailed", message)
        await self._write(
            pet, [condition(pet, "Ready", "False", "StoreFailed", message), self._reachable(pet)]
        )

    async def _write(self, pet: Pet, conditions: list[Condition], *, id: str | None = None) -> None:  # noqa: A002
        status = pet.status
        if id is not None:
            status.id = id
        status.observed_generation = pet.metadata.generation
        for each in conditions:
            set_condition(status.conditions, each, now=clock.now())
        await self._client.status.report(pet)

    def _announce(self, pet: Pet, content: Content, kept: Kept) -> None:
        """Tell a person what was done. Nobody asked for it when the Pet was ready as it is."""
        unasked = _is_settled(pet, "True")
        match kept.deed:
            case Deed.ADDED if pet.status.id:
                reason, message = "Restored", f"Added {content} to the pet store again, as {kept.id}"
            case Deed.ADDED:
                reason, message = "Added", f"Added {content} to the pet store as {kept.id}"
            case Deed.ADOPTED:
                reason, message = (
                    "Adopted",
                    f"Took over {kept.id} of the pet store, which was nobody's: {content}",
                )
            case Deed.UPDATED if unasked:
                reason, message = (
                    "Restored",
                    f"Put {kept.id} of the pet store back as it should be: {content}",
                )
            case Deed.UPDATED:
                reason, message = "Updated", f"Changed {kept.id} of the pet store to {content}"
            case _:
                return
        self._events.event(pet, "Normal", reason, message)

    def _reachable(self, pet: Pet) -> Condition:
        if self._was_unreachable(pet):
            self._events.event(
                pet, "Normal", "StoreReachable", f"The pet store at {self._address} answers again"
            )
        return condition(pet, "StoreReachable", "True", "Answered")

    def _was_unreachable(self, pet: Pet) -> bool:
        reachable = find_condition(pet.status.conditions, "StoreReachable")
        return reachable is not None and reachable.status == "False"


def _is_settled(pet: Pet, *statuses: ConditionStatus) -> bool:
    """Whether Ready has one of these statuses, and tells of the spec as it is now."""
    ready = find_condition(pet.status.conditions, "Ready")
    return (
        ready is not None
        and ready.status in statuses
        and ready.observed_generation == pet.metadata.generation
    )


def _after_no_answer(pet: Pet) -> ConditionStatus:
    """What was right when the store was last seen may still be; what was never done, is not."""
    going = pet.metadata.deletion_timestamp is not None
    return "Unknown" if not going and _is_settled(pet, "True", "Unknown") else "False"
