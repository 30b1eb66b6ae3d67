"""A watch: a reader of changes as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from devcluster.storage.records import Change, Overflow

__all__ = ["Watch"]


class Watch:
    """The changes of one resource, of one namespace or all, from a version on. Close it when done."""

    def __init__(
        self, *, namespace: str, limit: int, limit_bytes: int, closed: Callable[[Watch], None]
    ) -> None:
        """Set up the watch; it overflows beyond `limit` unread changes, or `limit_bytes` of their objects."""
        self.namespace = namespace
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._count = 0
        self._bytes = 0
        self._pending: list[Change] = []
        self._overflown = False
        self._waiter: asyncio.Future[None] | None = None
        self._closed: Callable[[Watch], None] | None = closed

    def push(self, change: Change) -> None:
        """Add a change if it is in the watch's namespace; called by the store."""
        if self.namespace and change.key.namespace != self.namespace:
            return
        if self._overflown:
            return
        self._count += 1
        self._bytes += change.size
        if self._count > self._limit or (self._count > 1 and self._bytes > self._limit_bytes):
            self._overflown = True
            self._pending.clear()
        else:
            self._pending.append(change)
        self._wake()

    def replay(self, changes: Iterable[Change]) -> None:
        """Begin with what has been; the history bounds that, so the limits are for what comes after it."""
        self._pending += [
            change for change in changes if not self.namespace or change.key.namespace == self.namespace
        ]

    async def next(self, timeout: float | None = None) -> list[Change]:
        """Return all pending changes, or wait for the next ones; empty after `timeout` seconds without any.

        Returns an empty list at once when the watch is closed.

        Raises:
            Overflow: the watch was read too slowly, and has lost changes.
        """
        if not self._pending and not self._overflown and self._closed is not None:
            await self._wait(timeout)
        if self._overflown:
            raise Overflow
        changes, self._pending, self._count, self._bytes = self._pending, [], 0, 0
        return changes

    @property
    def closed(self) -> bool:
        """Whether no more changes will come."""
        return self._closed is None

    def close(self) -> None:
        """Close the watch; a waiting reader gets an empty list."""
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
