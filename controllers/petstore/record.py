"""What the store is to have of a Pet, and the note about it that the Pet carries."""

from __future__ import annotations

import dataclasses
import datetime
import json

import orjson

from apis.petstore.v1beta1.pet import Pet
from controllers.petstore.birthday import day_of
from petstore.pet import Pet as Record
from petstore.pet import PetType

ADDED_AS = "pet.petstore.example.com/added-as"
"""The annotation with the content that was last asked to be added for this Pet.

It is written before the store hears of the Pet, so that a record is found again of which neither the id came
back nor the content is still that of the Pet, in a store that knows nothing else to find it by."""


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Content:
    """What a record says of a pet, whichever record it is."""

    name: str
    type: str
    birthday: datetime.date

    @classmethod
    def of(cls, record: Record) -> Content:
        """What that record says."""
        return cls(record.name, record.type.value, record.birthday)

    def record(self, *, id: str = "", key: str = "") -> Record:  # noqa: A002 - the field's name
        """A record that says so."""
        return Record(
            id=id, name=self.name, type=PetType(self.type), birthday=self.birthday, idempotency_key=key
        )

    def note(self) -> str:
        """The annotation that says so."""
        fields = {"name": self.name, "type": self.type, "birthday": self.birthday.isoformat()}
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))

    def __str__(self) -> str:
        return f"{self.name} ({self.type}, born {self.birthday})"


def wanted(pet: Pet) -> Content:
    """What the store is to say of the Pet.

    Raises:
        InvalidBirthday: its birthday is no day of the calendar.
    """
    return Content(pet.spec.name, pet.spec.species, day_of(pet.spec.birthday))


def noted(pet: Pet) -> Content | None:
    """What the Pet's annotation says; None without one, or when somebody made it unreadable."""
    try:
        fields = orjson.loads(pet.metadata.annotations[ADDED_AS])
        birthday = datetime.date.fromisoformat(fields["birthday"])
        name, kind = str(fields["name"]), PetType(fields["type"]).value
    except (KeyError, TypeError, ValueError):
        return None
    return Content(name, kind, birthday)
