"""Journal, which keeps the state of a store in a file, so that it survives a restart."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson

from devcluster.storage.records import Change, JournalFailed, Key, Stored

_log = logging.getLogger(__name__)

_FORMAT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS objects (
    grp TEXT, plural TEXT, namespace TEXT, name TEXT, version INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (grp, plural, namespace, name)
) WITHOUT ROWID;
"""
_PUT = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?)"
_REMOVE = "DELETE FROM objects WHERE grp = ? AND plural = ? AND namespace = ? AND name = ?"
_VERSION = "INSERT OR REPLACE INTO meta VALUES ('version', ?)"
_TABLES: Final = {"meta", "objects"}
_GAP: Final = 10_000
"""The number of versions skipped after a kill, since clients may have seen unwritten ones."""
_END: Final = None


class Journal:
    """SQLite file with the last state of each object, and the last version.

    A thread writes all pending changes in order, in one transaction; `durable` waits for it. A durable change
    survives a kill of the process, but not always a power failure.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the file. Blocks briefly.

        Raises:
            JournalFailed: the file cannot be opened, is not devcluster's, or another process uses it.
        """
        self.path = path
        self._queue: queue.SimpleQueue[Change | None] = queue.SimpleQueue()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._failure: JournalFailed | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        try:
            # The file contains Secrets; SQLite itself would make it readable for all users.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._database = sqlite3.connect(path, timeout=1.0, check_same_thread=False, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise JournalFailed(f"cannot use {path} as data file: {reason}") from error
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._database.close()
            raise JournalFailed(f"cannot use {path} as data file: {error}") from error
        except JournalFailed:
            self._database.close()
            raise
        self._durable = self.version

    def _prepare(self) -> None:
        execute = self._database.execute
        execute("PRAGMA locking_mode = EXCLUSIVE")
        tables = {name for (name,) in execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables <= _TABLES:
            raise JournalFailed(f"{self.path} is a database of something else, and is left alone")
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = NORMAL")
        self._database.executescript(_SCHEMA)
        meta = dict(execute("SELECT name, value FROM meta"))
        if meta.setdefault("format", _FORMAT) != _FORMAT:
            raise JournalFailed(f"{self.path} is of another version of devcluster (format {meta['format']})")
        self.version: int = meta.get("version", 0)
        if self.version and meta.get("running"):
            self.version += _GAP
            execute(_VERSION, (self.version,))
        # This write takes the lock, so that a second process fails at its start and not later.
        execute("INSERT OR REPLACE INTO meta VALUES ('format', ?), ('running', 1)", (_FORMAT,))

    def load(self) -> Iterator[Stored]:
        """Yield all objects; raise JournalFailed if the file is damaged."""
        columns = "SELECT grp, plural, namespace, name, version, data FROM objects"
        try:
            for group, plural, namespace, name, version, data in self._database.execute(columns):
                metadata = orjson.loads(data)["metadata"]
                key = Key(group, plural, namespace, name)
                yield Stored(key, version, metadata.get("uid", ""), metadata.get("labels") or {}, data)
        except (sqlite3.Error, ValueError, LookupError, TypeError, AttributeError) as error:
            self._database.close()
            raise JournalFailed(f"{self.path} is damaged: {error}") from error

    def write(self, change: Change) -> None:
        """Queue a change, which a thread writes later."""
        if self._failure is not None:
            return
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._run, name=f"journal {self.path}", daemon=True)
            self._thread.start()
        self._queue.put(change)

    async def durable(self, version: int) -> None:
        """Wait until all changes up to `version` are in the file; raise JournalFailed if that fails."""
        if self._failure is not None:
            raise self._failure
        if version <= self._durable or self._loop is None:
            return
        waiter = self._loop.create_future()
        self._waiting.append((version, waiter))
        await waiter

    async def aclose(self) -> None:
        """Write all pending changes and close the file."""
        if self._thread is not None:
            self._queue.put(_END)
            await asyncio.to_thread(self._thread.join)
        if self._failure is None:
            with contextlib.suppress(sqlite3.Error):
                self._database.execute("UPDATE meta SET value = 0 WHERE name = 'running'")
        self._database.close()

    def _run(self) -> None:
        """Write pending changes in this thread, all in one transaction, until the end or a failure."""
        going_on = True
        while going_on:
            changes = []
            item = self._queue.get()
            while item is not None:
                changes.append(item)
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
            else:
                going_on = False
            if changes and not self._write_all(changes):
                # The file must not have later changes without the failed one.
                going_on = False

    def _write_all(self, changes: list[Change]) -> bool:
        """Write the changes to the file; return whether that succeeded."""
        failure: JournalFailed | None = None
        try:
            execute = self._database.execute
            execute("BEGIN")
            for change in changes:
                if change.new is None:
                    execute(_REMOVE, change.key)
                else:
                    execute(_PUT, (*change.key, change.version, change.new.data))
            execute(_VERSION, (changes[-1].version,))
            execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            failure = JournalFailed(f"cannot write {self.path}: {error}")
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended, so no task waits
            self._loop.call_soon_threadsafe(self._written, changes[-1].version, failure)
        return failure is None

    def _written(self, version: int, failure: JournalFailed | None) -> None:
        if failure is not None:
            # The store keeps later changes in memory, but `durable` raises for each.
            _log.error("cannot store changes: all writes now get an error, a restart loses them: %s", failure)
            self._failure = failure
        else:
            self._durable = version
        waiting, self._waiting = self._waiting, []
        for wanted, waiter in waiting:
            if waiter.done():
                continue
            if self._failure is not None:
                waiter.set_exception(self._failure)
            elif wanted <= version:
                waiter.set_result(None)
            else:
                self._waiting.append((wanted, waiter))
