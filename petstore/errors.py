"""Errors of calls to the store; this module imports no gRPC.

PetStoreError
├── NoAnswer             the call may have taken effect; it can be repeated, an `add` only with keys
│   ├── Unreachable        the store is down, unreachable, or temporarily unable to write
│   └── DeadlinePassed     the store did not answer in time
├── InvalidPet           the store refuses a value; the text names the field
├── UnknownPet           no pet has the given id
├── KeyRefused           the stored pet has another idempotency key, or another pet has the given key
├── Exhausted            the store is full or overloaded, or the request too large; the call had no effect
└── UnexpectedAnswer     the store failed, or another program answered instead of a pet store
"""

from __future__ import annotations


def visible(text: str) -> str:
    """Return the text on one line, without control characters, which a terminal would interpret."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


class PetStoreError(Exception):
    """The base class of all errors; the text is for users, and has no control characters."""

    def __init__(self, text: str = "") -> None:
        super().__init__(visible(text))


class NoAnswer(PetStoreError):
    """A call without an answer, which may have taken effect. It can be repeated, an `add` only with keys."""


class Unreachable(NoAnswer):
    """The store is down, unreachable, or temporarily unable to write."""


class DeadlinePassed(NoAnswer):
    """The store did not answer in time."""


class InvalidPet(PetStoreError):
    """The store refuses a value; the text names the field."""


class UnknownPet(PetStoreError):
    """No pet has the given id."""


class KeyRefused(PetStoreError):
    """The stored pet has another idempotency key, or another pet has the given key."""


class Exhausted(PetStoreError):
    """The store is full or overloaded, or the request is too large; the call had no effect."""


class UnexpectedAnswer(PetStoreError):
    """The store failed, or another program answered instead of a pet store."""
