"""The storage of pets: an SQLite file, or memory."""

from __future__ import annotations

from petstore.storage.errors import (
    DataUnusable,
    DiskFull,
    KeyConflict,
    KeyTaken,
    PetUnknown,
    Refused,
    StorageError,
    StoreFull,
    TooBusy,
    WriteFailed,
)
from petstore.storage.operations import Add, Delete, Update
from petstore.storage.query import Query
from petstore.storage.storage import Storage

__all__ = [
    "Add",
    "DataUnusable",
    "Delete",
    "DiskFull",
    "KeyConflict",
    "KeyTaken",
    "PetUnknown",
    "Query",
    "Refused",
    "Storage",
    "StorageError",
    "StoreFull",
    "TooBusy",
    "Update",
    "WriteFailed",
]
