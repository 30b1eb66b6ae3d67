"""What a call of the store can raise; importing it imports no gRPC.

PetStoreError
├── NoAnswer             whether the call took effect is unknown; the same call may be made again
│   ├── Unreachable        the store is down, cannot be reached, or cannot write now
│   └── DeadlinePassed     it did not answer in time
├── InvalidPet           the store refuses a value; the text names the field
├── UnknownPet           there is no pet of that id
├── KeyRefused           another idempotency key, or another pet, stands in the way
├── Exhausted            the store is full, or has too much to do; nothing was done
└── UnexpectedAnswer     anything else
"""

from __future__ import annotations

__all__ = [
    "DeadlinePassed",
    "Exhausted",
    "InvalidPet",
    "KeyRefused",
    "NoAnswer",
    "PetStoreError",
    "UnexpectedAnswer",
    "UnknownPet",
    "Unreachable",
    "visible",
]


def visible(text: str) -> str:
    """It on one line: a terminal would obey the control characters in it."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


class PetStoreError(Exception):
    """Any of them; the text is for people, and has what the store said, without control characters."""

    def __init__(self, text: str = "") -> None:
        super().__init__(visible(text))


class NoAnswer(PetStoreError):
    """Whether the call took effect is unknown; the same call may be made again."""


class Unreachable(NoAnswer):
    """The store is down, cannot be reached, or cannot write now."""


class DeadlinePassed(NoAnswer):
    """The store did not answer in time."""


class InvalidPet(PetStoreError):
    """The store refuses a value; the text names the field."""


class UnknownPet(PetStoreError):
    """There is no pet of that id."""


class KeyRefused(PetStoreError):
    """The pet has another idempotency key, or the key belongs to another pet."""


class Exhausted(PetStoreError):
    """The store is full, or has too much to do; nothing was done."""


class UnexpectedAnswer(PetStoreError):
    """The store failed, or is not the store that this client knows."""
