"""Errors of a store.

StorageError
├── Exists           an object with that key exists
├── Missing          no object with that key exists
├── VersionConflict  the object is not at the caller's version
├── Expired          the history no longer reaches back that far
├── FutureVersion    that version is in the future
├── Overflow         a watch was not read quickly enough
└── JournalFailed    the write could not be made durable
"""

from __future__ import annotations

__all__ = [
    "Exists",
    "Expired",
    "FutureVersion",
    "JournalFailed",
    "Missing",
    "Overflow",
    "StorageError",
    "VersionConflict",
]


class StorageError(Exception):
    """Any of them."""


class Exists(StorageError):
    """An object with that key exists."""


class Missing(StorageError):
    """No object with that key exists."""


class VersionConflict(StorageError):
    """The object is at another version than the caller has seen."""

    def __init__(self, actual: int) -> None:
        super().__init__(f"the object is at version {actual}")
        self.actual = actual


class Expired(StorageError):
    """The history does not reach back to the version asked for; `oldest` is the first it can start from."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"version {asked} is gone, {oldest} is the oldest")
        self.asked = asked
        self.oldest = oldest


class FutureVersion(StorageError):
    """A version that has not been reached yet."""

    def __init__(self, asked: int, current: int) -> None:
        super().__init__(f"version {asked} has not been, {current} is the newest")
        self.asked = asked
        self.current = current


class Overflow(StorageError):
    """More changes waited for a watch than it may hold back."""


class JournalFailed(StorageError):
    """The journal cannot be written; the text says why."""
