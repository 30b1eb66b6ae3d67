"""The content of a Pet's record, and the annotation with that content."""

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
"""The annotation with the last content that the operator asked the store to add for this Pet.

The operator writes it before it calls the store. In a store without keys, it identifies a record whose id was
lost, even after the Pet's content has changed."""


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Content:
    """The content of a record, without its id and key."""

    name: str
    type: str
    birthday: datetime.date

    @classmethod
    def of(cls, record: Record) -> Content:
        """Return the content of a record."""
        return cls(record.name, record.type.value, record.birthday)

    def record(self, *, id: str = "", key: str = "") -> Record:  # noqa: A002 - the field's name
        """Build a record with this content."""
        return Record(
            id=id, name=self.name, type=PetType(self.type), birthday=self.birthday, idempotency_key=key
        )

    def note(self) -> str:
        """Encode the content as the text of the annotation."""
        fields = {"name": self.name, "type": self.type, "birthday": self.birthday.isoformat()}
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))

    def __str__(self) -> str:
        return f"{self.name} ({self.type}, born {self.birthday})"


def wanted(pet: Pet) -> Content:
    """Return the content that the Pet's record should have; raise InvalidBirthday for an impossible day."""
    return Content(pet.spec.name, pet.spec.species, day_of(pet.spec.birthday))


def noted(pet: Pet) -> Content | None:
    """Return the content in the Pet's annotation; None if the annotation is missing or unreadable."""
    try:
        fields = orjson.loads(pet.metadata.annotations[ADDED_AS])
        birthday = datetime.date.fromisoformat(fields["birthday"])
        name, kind = str(fields["name"]), PetType(fields["type"]).value
    except (KeyError, TypeError, ValueError):
        return None
    return Content(name, kind, birthday)
