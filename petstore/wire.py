"""Conversion of pets and dates to and from protobuf messages."""

from __future__ import annotations

import datetime
from typing import Final

from google.type import date_pb2

from petstore.pet import Pet, PetType
from petstore.proto import petstore_pb2 as pb

_NUMBERS: Final = {
    PetType.DOG: pb.PTCanine,
    PetType.CAT: pb.PTFeline,
    PetType.BIRD: pb.PTBird,
    PetType.REPTILE: pb.PTReptile,
}
_TYPES: Final = {int(number): kind for kind, number in _NUMBERS.items()}


class Malformed(ValueError):
    """An error: a message does not describe a pet; the text names the field and the reason."""


def type_number(kind: PetType) -> pb.PetType.ValueType:
    """Convert a species to its number in the protocol."""
    return _NUMBERS[kind]


def read_type(number: int) -> PetType | None:
    """Convert a number in the protocol to a species; None for PTUnknown and for unknown numbers."""
    return _TYPES.get(number)


def date_message(date: datetime.date) -> date_pb2.Date:
    """Convert a date to a protobuf message."""
    return date_pb2.Date(year=date.year, month=date.month, day=date.day)


def pet_message(pet: Pet) -> pb.Pet:
    """Convert a pet to a protobuf message."""
    return pb.Pet(
        id=pet.id,
        name=pet.name,
        type=_NUMBERS[pet.type],
        birthday=date_message(pet.birthday),
        idempotency_key=pet.idempotency_key,
    )


def read_date(message: date_pb2.Date) -> datetime.date:
    """Convert a message to a date; raise Malformed if the day does not exist, or month or day is missing."""
    try:
        return datetime.date(message.year, message.month, message.day)
    except (ValueError, OverflowError):
        text = f"{message.year}-{message.month}-{message.day}"
        raise Malformed(f"{text} is not a day of the calendar (year 1 to 9999)") from None


def read_pet(message: pb.Pet) -> Pet:
    """Convert a message to a pet.

    Raises Malformed if the name is blank, the type unknown, the birthday impossible, or a text contains a
    NUL.
    """
    if not message.name or message.name.isspace():
        raise Malformed("name: must not be blank")
    # Some programs end a text at a NUL, and would read another name.
    for field, text in (("name", message.name), ("idempotency_key", message.idempotency_key)):
        if "\0" in text:
            raise Malformed(f"{field}: must not contain NUL")
    kind = read_type(message.type)
    if kind is None:
        known = ", ".join(pb.PetType.Name(number) for number in _NUMBERS.values())
        raise Malformed(f"type: one of {known} is expected, not {message.type}")
    try:
        birthday = read_date(message.birthday)
    except Malformed as error:
        raise Malformed(f"birthday: {error}") from None
    return Pet(
        name=message.name,
        type=kind,
        birthday=birthday,
        id=message.id,
        idempotency_key=message.idempotency_key,
    )
