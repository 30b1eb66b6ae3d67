"""What the store keeps."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass

__all__ = ["Pet", "PetType"]


class PetType(enum.Enum):
    """What a pet is; the values are the words that people write."""

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
    """In UTC."""

    id: str = ""
    """A UUID, given by the store; "" until then."""

    idempotency_key: str = ""
    """Unique among the store's pets, given by whoever added it; "" for none."""
