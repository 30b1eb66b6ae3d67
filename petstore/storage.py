"""The storage of pets, in an SQLite file or in memory; only one thread accesses the data.

StorageError
├── DataUnusable    the file cannot be opened, is damaged, is in use, or is not the file of a pet store
├── WriteFailed     the file cannot be read or written now; the change had no effect
│   └── DiskFull     the disk has no room for it
└── Refused         the change conflicts with the stored data, and had no effect
    ├── PetUnknown   no pet has the given id
    ├── KeyConflict  the stored pet already has another idempotency key
    └── KeyTaken     another pet has the given idempotency key
"""

from __future__ import annotations

import asyncio
import datetime
import fcntl
import json
import os
import sqlite3
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, TypeVar

from petstore.pet import Pet, PetType

T = TypeVar("T")

_APPLICATION: Final = 0x50657453  # "PetS"
_FORMAT: Final = 1
_SCHEMA: Final = f"""
BEGIN;
CREATE TABLE pets (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    type TEXT NOT NULL,
    birthday TEXT NOT NULL,
    idempotency_key TEXT UNIQUE
);
CREATE INDEX pets_by_name ON pets (name);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_FORMAT};
COMMIT;
"""
_COLUMNS: Final = "seq, id, name, type, birthday, idempotency_key"
_INSERT: Final = "INSERT INTO pets (id, name, type, birthday, idempotency_key) VALUES (?, ?, ?, ?, ?)"
_UPDATE: Final = "UPDATE pets SET name = ?, type = ?, birthday = ?, idempotency_key = ? WHERE id = ?"
_PAGE: Final = 200
"""The number of pets of a search that are in memory at a time."""


class StorageError(Exception):
    """The base class of all storage errors; the text is for users."""


class DataUnusable(StorageError):
    """The file cannot be opened, is damaged, is in use, or is not the file of a pet store."""


class WriteFailed(StorageError):
    """The file cannot be read or written now; the change had no effect."""


class DiskFull(WriteFailed):
    """The disk has no room for the change."""


class Refused(StorageError):
    """The change conflicts with the stored data; it had no effect."""


class PetUnknown(Refused):
    """No pet has the given id."""


class KeyConflict(Refused):
    """The stored pet already has another idempotency key."""


class KeyTaken(Refused):
    """Another pet has the given idempotency key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query for pets that match one value of each non-empty filter; without filters, all pets match."""

    names: Sequence[str] = ()
    types: Sequence[PetType | None] = ()
    """The types to match; None stands for a type that no pet has."""

    keys: Sequence[str] = ()
    """The idempotency keys to match."""

    born_from: datetime.date | None = None
    """The first birthday to match."""

    born_before: datetime.date | None = None
    """The day after the last birthday to match."""


def new_id() -> str:
    """Generate the id of a new pet."""
    return str(uuid.uuid4())


class Storage:
    """A store of pets in a file or, for None, in memory: a context manager that can be entered once.

    Entering raises DataUnusable. Leaving completes waiting changes, and closes the file. A method that
    changes data returns when the change is durable, and raises Refused or WriteFailed. If the method is
    cancelled before the storage's thread begins the change, the change is not made.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._database: sqlite3.Connection
        self._lock = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._thread = ThreadPoolExecutor(1, "petstore-storage")
        try:
            if self._path is not None:
                self._lock.callback(os.close, await self._run(_lock, self._path))
            self._database = await self._run(_open, self._path)
        except BaseException:
            await asyncio.to_thread(self._thread.shutdown)
            await self._lock.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._thread.shutdown)
        await asyncio.to_thread(self._database.close)
        await self._lock.aclose()

    async def add(self, pets: Sequence[Pet], new_id: Callable[[], str] = new_id) -> list[str]:
        """Add pets, and return their ids in order.

        If a pet with the same idempotency key is stored, the result has its id, and the stored pet stays
        unchanged: a repeated call must not undo a later change.
        """
        return await self._run(
            self._commit,
            lambda: [self._find(each.idempotency_key) or self._insert(each, new_id()) for each in pets],
        )

    async def update(self, pets: Sequence[Pet]) -> None:
        """Change the name, type and birthday of each pet in order; a pet is found by its id.

        A stored pet without idempotency key gets the given key, if any.

        Raises:
            PetUnknown: no pet has one of the ids.
            KeyConflict: a stored pet already has another key.
            KeyTaken: another pet has one of the keys.
        """
        await self._run(self._commit, self._update, pets)

    async def delete(self, ids: Sequence[str]) -> None:
        """Delete the pets with these ids; ignore unknown ids."""
        await self._run(
            self._commit,
            lambda: self._database.executemany("DELETE FROM pets WHERE id = ?", [(each,) for each in ids]),
        )

    async def search(self, query: Query) -> AsyncGenerator[list[Pet], None]:
        """Yield pages of matching pets in the order of their addition; raise WriteFailed if a read fails.

        The search sees every change requested before it. Later changes are made between two pages, so the
        search may show them or not. A pet that matches during the whole search is returned exactly once.
        """
        after: int | None = 0
        while after is not None:
            try:
                pets, after = await self._run(_read_page, self._database, query, after)
            except sqlite3.Error as error:
                raise WriteFailed(f"the store cannot read: {error}") from error
            yield pets

    async def _run(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    def _commit(self, change: Callable[..., T], *arguments: object) -> T:
        try:
            self._database.execute("BEGIN IMMEDIATE")
            result = change(*arguments)
            self._database.execute("COMMIT")
        except Exception as error:
            if (
                self._database.in_transaction
            ):  # SQLite may have rolled the transaction back already, for example because the disk is full
                self._database.execute("ROLLBACK")
            if isinstance(error, Refused):
                raise
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                raise DiskFull("the disk of the store is full; nothing was written") from error
            raise WriteFailed(f"the store cannot write: {error}") from error
        return result

    def _find(self, key: str) -> str | None:
        if not key:
            return None
        row = self._database.execute("SELECT id FROM pets WHERE idempotency_key = ?", (key,)).fetchone()
        return row[0] if row else None

    def _insert(self, pet: Pet, identity: str) -> str:
        birthday = pet.birthday.isoformat()
        values = (identity, pet.name, pet.type.value, birthday, pet.idempotency_key or None)
        self._database.execute(_INSERT, values)
        return identity

    def _update(self, pets: Sequence[Pet]) -> None:
        for pet in pets:
            row = self._database.execute(
                "SELECT idempotency_key FROM pets WHERE id = ?", (pet.id,)
            ).fetchone()
            if row is None:
                raise PetUnknown(f"there is no pet {pet.id}")
            held, wanted = row[0], pet.idempotency_key
            if wanted and wanted != held:
                if held is not None:
                    raise KeyConflict(f"pet {pet.id} has another idempotency key")
                if self._find(wanted) is not None:
                    raise KeyTaken(f"another pet has the idempotency key {wanted}")
            values = (pet.name, pet.type.value, pet.birthday.isoformat(), held or wanted or None)
            self._database.execute(_UPDATE, (*values, pet.id))


def _read_page(database: sqlite3.Connection, query: Query, after: int) -> tuple[list[Pet], int | None]:
    conditions, values = ["seq > ?"], list[object]([after])
    # Each list is passed as one JSON array, because SQLite limits the number of variables in a statement.
    types = [kind and kind.value for kind in query.types]
    lists = (("name", query.names), ("type", types), ("idempotency_key", query.keys))
    for column, wanted in lists:
        if wanted:
            conditions.append(f"{column} IN (SELECT value FROM json_each(?))")  # noqa: S608 -- a constant name
            # SQLite's JSON ends a string at a NUL, so the query omits such values; no pet has one.
            values.append(json.dumps([value for value in wanted if "\0" not in (value or "")]))
    for comparison, day in ((">=", query.born_from), ("<", query.born_before)):
        if day is not None:
            conditions.append(f"birthday {comparison} ?")
            values.append(day.isoformat())
    statement = f"SELECT {_COLUMNS} FROM pets WHERE {' AND '.join(conditions)} ORDER BY seq LIMIT ?"  # noqa: S608 -- constant parts
    rows = database.execute(statement, (*values, _PAGE)).fetchall()
    pets = [
        Pet(
            id=identity,
            name=name,
            type=PetType(kind),
            birthday=datetime.date.fromisoformat(birthday),
            idempotency_key=key or "",
        )
        for _, identity, name, kind, birthday, key in rows
    ]
    return pets, rows[-1][0] if len(rows) == _PAGE else None


def _lock(path: Path) -> int:
    """Lock the file for this store, so that no other store uses it; return the lock's file descriptor.

    The lock is a separate file, because SQLite's own lock would also stop backups. The lock file is never
    removed, because another process may already have locked it.
    """
    path = path.resolve()
    if path.is_dir():
        raise DataUnusable(f"{path} is a folder")
    if not path.parent.is_dir():
        raise DataUnusable(f"cannot use {path}: there is no folder {path.parent}")
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        file = os.open(path.with_name(f"{path.name}-lock"), flags, 0o644)
    except OSError as error:
        raise DataUnusable(f"cannot use {path}: {os.strerror(error.errno or 0)}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise DataUnusable(f"{path} is in use by another process") from None
    return file


def _open(path: Path | None) -> sqlite3.Connection:
    """Open or create the file; None means memory. A file that cannot be used stays unchanged."""
    if path is None:
        database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        database.executescript(_SCHEMA)
        return database
    database = sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)
    try:
        # A start that was killed may have left a file without a schema.
        is_new = not _number(database, "PRAGMA application_id") and not _number(
            database, "SELECT count(*) FROM sqlite_master"
        )
        if not is_new:
            _check(path, database)
        database.execute("PRAGMA journal_mode = WAL")
        # A confirmed write survives a power failure.
        database.execute("PRAGMA synchronous = FULL")
        if is_new:
            database.executescript(_SCHEMA)
    except sqlite3.Error as error:
        database.close()
        raise DataUnusable(_explain(path, error)) from error
    except BaseException:
        database.close()
        raise
    return database


def _check(path: Path, database: sqlite3.Connection) -> None:
    if _number(database, "PRAGMA application_id") != _APPLICATION:
        raise DataUnusable(f"{path} is a database of another program")
    version = _number(database, "PRAGMA user_version")
    if version != _FORMAT:
        raise DataUnusable(f"{path} is of another version of the pet store (format {version}, not {_FORMAT})")
    # This check reads every page, but not the indexes' content: it finds a damaged page before a client does.
    (finding,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if finding != "ok":
        raise DataUnusable(f"{path} is damaged ({' '.join(str(finding).split())})")


def _number(database: sqlite3.Connection, statement: str) -> int:
    (value,) = database.execute(statement).fetchone()
    return int(value)


def _explain(path: Path, error: sqlite3.Error) -> str:
    # The lowest byte of an extended result code is the primary code.
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_BUSY:
            return f"{path} is in use by another process"
        case sqlite3.SQLITE_NOTADB:
            return f"{path} is not a pet store's file, or is damaged ({error})"
        case sqlite3.SQLITE_CORRUPT:
            return f"{path} is damaged ({error})"
        case _:
            return f"cannot use {path}: {error}"
