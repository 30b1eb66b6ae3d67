"""Group commit: all operations that wait make one transaction, and are answered once it is on the disk."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any, TypeVar

from petstore.storage.errors import DiskFull, Refused, TooBusy, WriteFailed
from petstore.storage.operations import Operation
from petstore.storage.volume import Volume

__all__ = ["GroupCommit"]

T = TypeVar("T")


class GroupCommit:
    """A queue of operations, applied in order by `executor`, which must have one thread.

    While one transaction is written, the next one collects operations: the higher the load, the lower the
    cost of each.
    """

    def __init__(
        self, database: sqlite3.Connection, volume: Volume, executor: Executor, *, max_waiting: int
    ) -> None:
        """Set up the queue; `max_waiting` is the maximum weight of the operations that wait."""
        self._database = database
        self._volume = volume
        self._executor = executor
        self._max_waiting = max_waiting
        self._weight = 0
        self._waiting: list[tuple[Operation[Any] | None, asyncio.Future[Any]]] = []
        self._wake = asyncio.Event()
        self._closing = False
        self._busy = False

    async def write(self, operation: Operation[T]) -> T:
        """Apply it; returns once it is durable. Cancelled before its turn has come, it is not applied.

        Raises:
            Refused: it does not fit what is stored.
            TooBusy: too much waits already.
            WriteFailed: it cannot be kept.
        """
        result: T = await self._enqueue(operation)
        return result

    async def settled(self) -> None:
        """Return once everything that had been asked for before is durable, given up or refused.

        Raises:
            TooBusy: too much waits already.
            WriteFailed: it cannot be kept.
        """
        if self._busy or self._waiting:
            await self._enqueue(None)

    def close(self) -> None:
        """Let `run` end once nothing waits."""
        self._closing = True
        self._wake.set()

    async def run(self) -> None:
        """Work until closed."""
        loop = asyncio.get_running_loop()
        while self._waiting or not self._closing:
            if not self._waiting:
                self._wake.clear()
                await self._wake.wait()
                continue
            # The future of a caller that has gone is cancelled.
            batch = [(operation, future) for operation, future in self._waiting if not future.done()]
            self._waiting, self._weight = [], 0
            self._busy = True
            operations = [operation for operation, _ in batch if operation is not None]
            try:
                results = iter(
                    await loop.run_in_executor(
                        self._executor, _commit, self._database, self._volume, operations
                    )
                )
            except WriteFailed as error:
                for _, future in batch:
                    # Each caller gets its own error, because raising adds a traceback to it.
                    _fail(future, type(error)(*error.args))
            else:
                for operation, future in batch:
                    _answer(future, None if operation is None else next(results))
            finally:
                self._busy = False

    def _enqueue(self, operation: Operation[Any] | None) -> asyncio.Future[Any]:
        weight = _weight(operation)
        if self._weight + weight > self._max_waiting:
            # Cancelled operations still take space, so a client could fill the queue with them.
            self._waiting = [entry for entry in self._waiting if not entry[1].done()]
            self._weight = sum(_weight(waiting) for waiting, _ in self._waiting)
        if self._weight + weight > self._max_waiting:
            raise TooBusy("too much waits to be written; try again later")
        self._weight += weight
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((operation, future))
        self._wake.set()
        return future


def _weight(operation: Operation[Any] | None) -> int:
    return 1 if operation is None else 1 + operation.weight


def _answer(future: asyncio.Future[Any], result: object) -> None:
    if isinstance(result, Refused):
        _fail(future, result)
    elif not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _commit(
    database: sqlite3.Connection, volume: Volume, operations: Sequence[Operation[Any]]
) -> list[object]:
    """Run the operations in one transaction, in the thread; return each one's result or refusal."""
    if not operations:
        return []
    results: list[object] = []
    try:
        database.execute("BEGIN IMMEDIATE")
        for operation in operations:
            try:
                results.append(operation.apply(database, volume))
            except Refused as error:
                results.append(error)
        database.execute("COMMIT")
    except Exception as error:
        # After any error `run` continues: callers must get an answer, and later operations their turn.
        with contextlib.suppress(sqlite3.Error):
            if database.in_transaction:
                database.execute("ROLLBACK")
            volume.recount()
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            raise DiskFull("the disk of the store is full; nothing was written") from error
        raise WriteFailed(f"the store cannot write: {error}") from error
    return results
