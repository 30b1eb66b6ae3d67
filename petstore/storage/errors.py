"""Errors of the storage.

StorageError
├── DataUnusable    the file cannot be opened, is damaged, is not a pet store's, or is in use
├── WriteFailed     the file cannot be read or written now; nothing of the operation was kept
│   └── DiskFull     the disk has no room for it
├── TooBusy         too many operations wait; the operation was not begun
└── Refused         the operation conflicts with the stored data, and had no effect
    ├── PetUnknown   no pet has that id
    ├── KeyConflict  the pet has another idempotency key already
    ├── KeyTaken     another pet has that idempotency key
    └── StoreFull    the store is full
"""

from __future__ import annotations

__all__ = [
    "DataUnusable",
    "DiskFull",
    "KeyConflict",
    "KeyTaken",
    "PetUnknown",
    "Refused",
    "StorageError",
    "StoreFull",
    "TooBusy",
    "WriteFailed",
]


class StorageError(Exception):
    """Any of them; the text is for people."""


class DataUnusable(StorageError):
    """The file cannot be opened, is damaged, is not a pet store's, or is in use."""


class WriteFailed(StorageError):
    """The file cannot be read or written now; nothing of the operation was kept."""


class DiskFull(WriteFailed):
    """The disk has no room for it."""


class TooBusy(StorageError):
    """Too much waits to be written; nothing of the operation was begun."""


class Refused(StorageError):
    """The operation conflicts with the stored data; it had no effect."""


class PetUnknown(Refused):
    """No pet has that id."""


class KeyConflict(Refused):
    """The pet has another idempotency key already."""


class KeyTaken(Refused):
    """Another pet has that idempotency key."""


class StoreFull(Refused):
    """The store is full."""
