"""The pets, behind an asynchronous face: SQLite works in threads."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self, TypeVar

from petstore.capacity import Capacity
from petstore.pet import Pet
from petstore.storage.commit import GroupCommit
from petstore.storage.database import open_database
from petstore.storage.errors import WriteFailed
from petstore.storage.operations import Operation
from petstore.storage.query import Query, read_page
from petstore.storage.volume import Volume

__all__ = ["Storage"]

T = TypeVar("T")

_PAGE = 200
"""Pets per page of a search, which a slow reader keeps in memory.

A page usually takes some tens of kilobytes, at most half a megabyte."""


class Storage:
    """The pets in a file, or in memory for None. Enter it once, and use it while entered.

    Entering raises DataUnusable, as `open_database` does. Leaving completes waiting operations, and closes
    the file.
    """

    def __init__(self, path: Path | None, capacity: Capacity | None = None) -> None:
        self._path = path
        self._capacity = capacity or Capacity()

    async def __aenter__(self) -> Self:
        self._database = await asyncio.to_thread(open_database, self._path)
        self._writing = ThreadPoolExecutor(1, "petstore-write")
        # In memory there is one connection, which one thread at a time may use.
        shared = self._database.reader is self._database.writer
        self._reading = self._writing if shared else ThreadPoolExecutor(1, "petstore-read")
        volume = await asyncio.to_thread(
            Volume, self._database.writer, max_pets=self._capacity.pets, max_bytes=self._capacity.data_bytes
        )
        self._commits = GroupCommit(
            self._database.writer, volume, self._writing, max_waiting=self._capacity.waiting_pets
        )
        self._worker = asyncio.create_task(self._commits.run(), name="petstore-commit")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._commits.close()
        try:
            await self._worker
        finally:
            await asyncio.to_thread(self._close)

    async def write(self, operation: Operation[T]) -> T:
        """Apply it; returns once it is durable. Cancelled before its turn has come, it is not applied.

        Raises:
            Refused: it does not fit what is stored.
            TooBusy: too much waits already.
            WriteFailed: it cannot be kept.
        """
        return await self._commits.write(operation)

    async def search(self, query: Query) -> AsyncGenerator[list[Pet], None]:
        """Yield pages of matching pets in the order of creation; see `read_page` about concurrent changes.

        The search sees every operation requested before it.

        Raises:
            TooBusy: too many operations wait to be written before it.
            WriteFailed: the file cannot be read.
        """
        loop = asyncio.get_running_loop()
        await self._commits.settled()
        after: int | None = 0
        while after is not None:
            try:
                pets, after = await loop.run_in_executor(
                    self._reading, read_page, self._database.reader, query, after, _PAGE
                )
            except sqlite3.Error as error:
                raise WriteFailed(f"the store cannot read: {error}") from error
            yield pets

    def _close(self) -> None:
        self._reading.shutdown()
        self._writing.shutdown()
        self._database.close()
