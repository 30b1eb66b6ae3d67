"""Errors of calls to the store; this module imports no gRPC.

PetStoreError
├── NoAnswer             whether the call took effect is unknown; the same call may be made again
│   ├── Unreachable        the store is down, cannot be reached, or cannot write now
│   └── DeadlinePassed     the store did not answer in time
├── InvalidPet           the store refuses a value; the text names the field
├── UnknownPet           no pet has that id
├── KeyRefused           the pet has another idempotency key, or another pet has this one
├── Exhausted            the store is full, or has too much to do; nothing was done
└── UnexpectedAnswer     anything else
"""

from __future__ import annotations


def visible(text: str) -> str:
    """Replace control characters, which a terminal would obey; the result is one line."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


class PetStoreError(Exception):
    """The base of all errors; the text is for people, without control characters."""

    def __init__(self, text: str = "") -> None:
        super().__init__(visible(text))


class NoAnswer(PetStoreError):
    """The call may have taken effect or not; repeating it is safe."""


class Unreachable(NoAnswer):
    """The store is down, cannot be reached, or cannot write now."""


class DeadlinePassed(NoAnswer):
    """The store did not answer in time."""


class InvalidPet(PetStoreError):
    """The store refuses a value; the text names the field."""


class UnknownPet(PetStoreError):
    """No pet has that id."""


class KeyRefused(PetStoreError):
    """The pet has another idempotency key, or the key belongs to another pet."""


class Exhausted(PetStoreError):
    """The store is full, or has too much to do; nothing was done."""


class UnexpectedAnswer(PetStoreError):
    """The store failed, or is not the store that this client knows."""
