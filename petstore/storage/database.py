"""The SQLite file: its format, opening, and checks."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from petstore.storage.errors import DataUnusable
from petstore.storage.lock import FileLock

__all__ = ["Database", "open_database"]

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
# SQLite's codes for a file that it can open but not use, unlike one that it cannot reach.
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@dataclass(frozen=True, slots=True)
class Database:
    """A writing and a reading connection: a search does not wait for a commit. In memory both are one.

    Each connection may be used by one thread at a time.
    """

    writer: sqlite3.Connection
    reader: sqlite3.Connection
    lock: FileLock | None

    def close(self) -> None:
        """Close the file, all of whose content is then in it, and let others have it. Blocks for a moment."""
        self.reader.close()
        self.writer.close()
        if self.lock is not None:
            self.lock.close()


def open_database(path: Path | None) -> Database:
    """Open the file, or make it; None is memory. Blocks, for a large file some seconds: it is checked.

    Raises:
        DataUnusable: the file cannot be opened, is damaged, is not a pet store's, or is in use.
            It is left as it was.
    """
    if path is None:
        connection = _connect(":memory:")
        connection.executescript(_SCHEMA)
        return Database(connection, connection, None)
    try:
        path = path.resolve()
        if path.is_dir():
            raise DataUnusable(f"{path} is a folder")
        lock = FileLock(path)
    except OSError as error:
        raise DataUnusable(f"cannot use {path}: {os.strerror(error.errno or 0)}") from None
    try:
        return _open(path, lock)
    except sqlite3.Error as error:
        lock.close()
        raise DataUnusable(_explain(path, error)) from error
    except DataUnusable:
        lock.close()
        raise


def _open(path: Path, lock: FileLock) -> Database:
    writer = _connect(path)
    try:
        if _is_new(writer):
            _keep_journal(writer)
            writer.executescript(_SCHEMA)
        else:
            _check(path, writer)
            _keep_journal(writer)
        reader = _connect(path)
    except BaseException:
        writer.close()
        raise
    reader.execute("PRAGMA query_only = ON")
    return Database(writer, reader, lock)


def _connect(path: Path | str) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)


def _keep_journal(writer: sqlite3.Connection) -> None:
    writer.execute("PRAGMA journal_mode = WAL")
    # A confirmed write survives a power failure. Group commit keeps this affordable.
    writer.execute("PRAGMA synchronous = FULL")


def _is_new(writer: sqlite3.Connection) -> bool:
    """Return whether the file is new, including one from a start that was killed after writing the header."""
    return not _pragma(writer, "application_id") and not _number(writer, "SELECT count(*) FROM sqlite_master")


def _check(path: Path, writer: sqlite3.Connection) -> None:
    if _pragma(writer, "application_id") != _APPLICATION:
        raise DataUnusable(f"{path} is a database of another program")
    version = _pragma(writer, "user_version")
    if version != _FORMAT:
        raise DataUnusable(f"{path} is of another version of the pet store (format {version}, not {_FORMAT})")
    # Reads every page, but not the indexes' content: a damaged page is found now, not by a client.
    (finding,) = writer.execute("PRAGMA quick_check(1)").fetchone()
    if finding != "ok":
        raise DataUnusable(f"{path} is damaged ({' '.join(str(finding).split())})")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return _number(connection, f"PRAGMA {name}")


def _number(connection: sqlite3.Connection, statement: str) -> int:
    (value,) = connection.execute(statement).fetchone()
    return int(value)


def _explain(path: Path, error: sqlite3.Error) -> str:
    # Extended codes have the plain one in their lowest byte.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return f"{path} is not a pet store's file, or is damaged ({error})"
    if code in _DAMAGED:
        return f"{path} is damaged ({error})"
    return f"cannot use {path}: {error}"
