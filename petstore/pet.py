"""The data class of a pet."""

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
    """A pet in the store, or a pet to add to it."""

    name: str
    """A name that is not blank; it need not be unique."""

    type: PetType

    birthday: datetime.date
    """The day of birth in UTC."""

    id: str = ""
    """A UUID that the store assigns; "" for a pet that is not stored."""

    idempotency_key: str = ""
    """A unique key that the creator chooses; "" for none."""
