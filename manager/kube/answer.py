"""The answer to one HTTP request, as it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from multidict import CIMultiDict

from manager.kube.errors import ConnectionLost, ProtocolError
from manager.kube.wire import LONGEST

READ_AHEAD = 256 * 1024
"""Bytes of a stream that may wait for whoever consumes it, before no more is read from the connection."""


class Answer:
    """Implements `manager.kube.wire.WireResponse`: a connection fills it in, whoever asked reads it.

    Attributes:
        status: the HTTP status code; 0 until the whole head is there.
        headers: of those that came several times, one with all values, separated by commas.
    """

    __slots__ = (
        "_complete",
        "_error",
        "_held",
        "_limit",
        "_parts",
        "_paused",
        "_transport",
        "_waiter",
        "_whole",
        "headers",
        "status",
    )

    def __init__(self, transport: asyncio.Transport) -> None:
        """`transport` is what it comes over."""
        self.status = 0
        self.headers: CIMultiDict[str] = CIMultiDict()
        self._transport = transport
        self._parts: list[bytes] = []
        self._held = 0
        self._limit = READ_AHEAD
        self._paused = False
        self._whole = False
        self._complete = False
        self._error: ConnectionLost | None = None
        self._waiter: asyncio.Future[None] | None = None

    # What the connection calls.

    def begin(self, status: int) -> None:
        """The head is there."""
        self.status = status
        self._wake()

    def add(self, part: bytes) -> None:
        """More of the body has come."""
        self._parts.append(part)
        self._held += len(part)
        is_much = self._held > self._limit
        if is_much and not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()
        if is_much or not self._whole:
            self._wake()

    def finish(self) -> None:
        """All of it has come."""
        self._complete = True
        self._resume()  # for the next answer, if nobody wants the rest of this one
        self._wake()

    def fail(self, error: ConnectionLost) -> None:
        """No more of it will come."""
        self._error = error
        self._wake()

    # What the asker calls.

    async def begun(self) -> None:
        """Wait until the head is there; raises `ConnectionLost` if none comes."""
        while not self.status:
            if self._error is not None:
                raise self._error
            await self._news()

    async def read(self, limit: int = LONGEST) -> bytes:
        """See `WireResponse.read`."""
        self._whole, self._limit = True, limit
        self._resume()
        while self._held <= limit:
            if self._complete:
                return self._take()
            if self._error is not None:
                raise self._error
            await self._news()
        self._parts, self._held = [], 0
        raise ProtocolError(f"the answer is longer than {limit} bytes")

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """See `WireResponse.chunks`."""
        while True:
            if self._parts:
                chunk = self._take()
                self._resume()
                yield chunk
            elif self._error is not None:
                raise self._error
            elif self._complete:
                return
            else:
                await self._news()

    def _take(self) -> bytes:
        parts = self._parts
        self._parts, self._held = [], 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    async def _news(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
