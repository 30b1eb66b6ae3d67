"""Changes of what is stored; each is done wholly or not at all."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from petstore.pet import Pet
from petstore.storage.errors import KeyConflict, KeyTaken, PetUnknown, Refused

__all__ = ["Add", "Delete", "Operation", "Update"]

T_co = TypeVar("T_co", covariant=True)

_INSERT = "INSERT INTO pets (id, name, type, birthday, idempotency_key) VALUES (?, ?, ?, ?, ?)"
_UPDATE = "UPDATE pets SET name = ?, type = ?, birthday = ?, idempotency_key = ? WHERE id = ?"


class Operation(Protocol[T_co]):
    """One of them; applied within a transaction, which others share."""

    def apply(self, database: sqlite3.Connection) -> T_co:
        """Do it.

        Raises:
            Refused: nothing of it was done.
            sqlite3.Error: the transaction has to be given up.
        """


@dataclass(frozen=True, slots=True)
class Add:
    """Add pets; the answer has their ids, in order.

    For a pet whose idempotency key is there already, it is the id of the pet that has it, which stays as it
    is: it may have been changed since it was added, and a repeated call must not undo that.
    """

    pets: Sequence[Pet]

    def apply(self, database: sqlite3.Connection) -> list[str]:
        """Do it; never refused."""
        return [_find(database, pet.idempotency_key) or _insert(database, pet) for pet in self.pets]


@dataclass(frozen=True, slots=True)
class Update:
    """Give pets, found by their ids, another name, type and birthday, in order.

    A pet without an idempotency key takes on the one that comes with it; none leaves it as it is.
    """

    pets: Sequence[Pet]

    def apply(self, database: sqlite3.Connection) -> None:
        """Do it.

        Raises:
            PetUnknown: there is no pet of one of the ids.
            KeyConflict: one of the pets has another key.
            KeyTaken: another pet has one of the keys.
        """
        database.execute("SAVEPOINT this")
        try:
            for pet in self.pets:
                _update(database, pet)
        except Refused:
            database.execute("ROLLBACK TO this")
            raise
        finally:
            database.execute("RELEASE this")


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the pets of these ids; unknown ones are ignored."""

    ids: Sequence[str]

    def apply(self, database: sqlite3.Connection) -> None:
        """Do it; never refused."""
        database.executemany("DELETE FROM pets WHERE id = ?", [(identity,) for identity in self.ids])


def _find(database: sqlite3.Connection, key: str) -> str | None:
    """The id of the pet that has this key."""
    if not key:
        return None
    row = database.execute("SELECT id FROM pets WHERE idempotency_key = ?", (key,)).fetchone()
    return row[0] if row else None


def _insert(database: sqlite3.Connection, pet: Pet) -> str:
    identity = str(uuid.uuid4())
    birthday = pet.birthday.isoformat()
    database.execute(_INSERT, (identity, pet.name, pet.type.value, birthday, pet.idempotency_key or None))
    return identity


def _update(database: sqlite3.Connection, pet: Pet) -> None:
    row = database.execute("SELECT idempotency_key FROM pets WHERE id = ?", (pet.id,)).fetchone()
    if row is None:
        raise PetUnknown(f"there is no pet {pet.id}")
    held, wanted = row[0], pet.idempotency_key
    if wanted and wanted != held:
        if held is not None:
            raise KeyConflict(f"pet {pet.id} has another idempotency key")
        if _find(database, wanted) is not None:
            raise KeyTaken(f"another pet has the idempotency key {wanted}")
    birthday = pet.birthday.isoformat()
    database.execute(_UPDATE, (pet.name, pet.type.value, birthday, held or wanted or None, pet.id))
