"""One reader of changes as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from devcluster.storage.errors import Overflow
from devcluster.storage.records import Change

__all__ = ["Watch"]


class Watch:
    """The changes of one resource, of one namespace or all, from a version on. Close it when done."""

    def __init__(self, *, namespace: str, limit: int, closed: Callable[[Watch], None]) -> None:
        """`limit` changes may wait to be read; with more, the watch is over."""
        self.namespace = namespace
        self._limit = limit
        self._pending: list[Change] = []
        self._overflown = False
        self._waiter: asyncio.Future[None] | None = None
        self._closed: Callable[[Watch], None] | None = closed

    def push(self, change: Change) -> None:
        """A change that may be of interest; called by the store."""
        if self.namespace and change.key.namespace != self.namespace:
            return
        if len(self._pending) >= self._limit:
            self._overflown = True
            self._pending.clear()
        if not self._overflown:
            self._pending.append(change)
        self._wake()

    async def next(self, timeout: float | None = None) -> list[Change]:
        """All changes that wait, or those that come first; an empty list after `timeout` seconds without any.

        Also empty, at once, when the watch was closed.

        Raises:
            Overflow: they were not read quickly enough, and some are lost.
        """
        if not self._pending and not self._overflown and self._closed is not None:
            await self._wait(timeout)
        if self._overflown:
            raise Overflow
        changes, self._pending = self._pending, []
        return changes

    @property
    def closed(self) -> bool:
        """Whether nothing more will come."""
        return self._closed is None

    def close(self) -> None:
        """Receive nothing more; a reader that waits gets an empty list."""
        if self._closed is not None:
            closed, self._closed = self._closed, None
            closed(self)
            self._wake()

    async def _wait(self, timeout: float | None) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = waiter = loop.create_future()
        alarm = None if timeout is None else loop.call_later(max(0.0, timeout), _set, waiter)
        try:
            await waiter
        finally:
            self._waiter = None
            if alarm is not None:
                alarm.cancel()

    def _wake(self) -> None:
        if self._waiter is not None:
            _set(self._waiter)


def _set(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
