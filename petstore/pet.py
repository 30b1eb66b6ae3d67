"""The record of a pet."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass


class PetType(enum.Enum):
    """The species of a pet; the values are the words that users write."""

    DOG = "dog"
    CAT = "cat"
    BIRD = "bird"
    REPTILE = "reptile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pet:
    """A pet."""

    name: str
    """Not blank; need not be unique."""

    type: PetType

    birthday: datetime.date
    """The day in UTC."""

    id: str = ""
    """A UUID, given by the store; "" until then."""

    idempotency_key: str = ""
    """A key that is unique in the store, chosen by the creator; "" for none."""
