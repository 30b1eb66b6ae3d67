"""Changes of the stored data; each is atomic."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from petstore.pet import Pet
from petstore.storage.errors import KeyConflict, KeyTaken, PetUnknown, Refused
from petstore.storage.volume import Volume

__all__ = ["Add", "Delete", "Operation", "Update"]

T_co = TypeVar("T_co", covariant=True)

_INSERT = "INSERT INTO pets (id, name, type, birthday, idempotency_key) VALUES (?, ?, ?, ?, ?)"
_UPDATE = "UPDATE pets SET name = ?, type = ?, birthday = ?, idempotency_key = ? WHERE id = ?"


def new_id() -> str:
    """Generate the id of a new pet."""
    return str(uuid.uuid4())


class Operation(Protocol[T_co]):
    """A change, applied within a transaction shared with other changes."""

    @property
    def weight(self) -> int:
        """The number of pets that the operation holds in memory while it waits."""

    def apply(self, database: sqlite3.Connection, volume: Volume) -> T_co:
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
    new_id: Callable[[], str] = new_id

    @property
    def weight(self) -> int:
        """The number of pets."""
        return len(self.pets)

    def apply(self, database: sqlite3.Connection, volume: Volume) -> list[str]:
        """Do it.

        Raises:
            StoreFull: there is no room for all that are new.
        """
        with _wholly(database, volume):
            return [
                _find(database, pet.idempotency_key) or _insert(database, volume, pet, self.new_id())
                for pet in self.pets
            ]


@dataclass(frozen=True, slots=True)
class Update:
    """Give pets, found by their ids, another name, type and birthday, in order.

    A pet without an idempotency key takes on the one that comes with it; none leaves it as it is.
    """

    pets: Sequence[Pet]

    @property
    def weight(self) -> int:
        """The number of pets."""
        return len(self.pets)

    def apply(self, database: sqlite3.Connection, volume: Volume) -> None:
        """Do it.

        Raises:
            PetUnknown: there is no pet of one of the ids.
            KeyConflict: one of the pets has another key.
            KeyTaken: another pet has one of the keys.
            StoreFull: there is no room for what has become longer.
        """
        with _wholly(database, volume):
            for pet in self.pets:
                _update(database, volume, pet)


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the pets of these ids; unknown ones are ignored."""

    ids: Sequence[str]

    @property
    def weight(self) -> int:
        """The weight in pets; an id needs a small part of a pet's memory."""
        return 1 + len(self.ids) // 10

    def apply(self, database: sqlite3.Connection, volume: Volume) -> None:
        """Do it; never refused."""
        deleted = database.executemany("DELETE FROM pets WHERE id = ?", [(id_,) for id_ in self.ids])
        volume.pets -= max(deleted.rowcount, 0)


@contextmanager
def _wholly(database: sqlite3.Connection, volume: Volume) -> Iterator[None]:
    """Undo the block when it raises `Refused`. After any other error the caller rolls the transaction back.

    SQLite may have rolled it back by then, as it does when the disk is full.
    """
    pets = volume.pets
    database.execute("SAVEPOINT this")
    try:
        yield
    except Refused:
        database.execute("ROLLBACK TO this")
        database.execute("RELEASE this")
        volume.pets = pets
        raise
    database.execute("RELEASE this")


def _find(database: sqlite3.Connection, key: str) -> str | None:
    """Return the id of the pet with this key, or None."""
    if not key:
        return None
    row = database.execute("SELECT id FROM pets WHERE idempotency_key = ?", (key,)).fetchone()
    return row[0] if row else None


def _insert(database: sqlite3.Connection, volume: Volume, pet: Pet, identity: str) -> str:
    volume.require(pets=1)
    birthday = pet.birthday.isoformat()
    database.execute(_INSERT, (identity, pet.name, pet.type.value, birthday, pet.idempotency_key or None))
    volume.pets += 1
    return identity


def _update(database: sqlite3.Connection, volume: Volume, pet: Pet) -> None:
    row = database.execute("SELECT idempotency_key, name FROM pets WHERE id = ?", (pet.id,)).fetchone()
    if row is None:
        raise PetUnknown(f"there is no pet {pet.id}")
    held, wanted = row[0], pet.idempotency_key
    if len(pet.name) > len(row[1]) or (wanted and held is None):
        volume.require(pets=0)
    if wanted and wanted != held:
        if held is not None:
            raise KeyConflict(f"pet {pet.id} has another idempotency key")
        if _find(database, wanted) is not None:
            raise KeyTaken(f"another pet has the idempotency key {wanted}")
    birthday = pet.birthday.isoformat()
    database.execute(_UPDATE, (pet.name, pet.type.value, birthday, held or wanted or None, pet.id))
