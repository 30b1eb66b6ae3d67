"""A watch that passes the fault proxy."""

from __future__ import annotations

import asyncio
import enum
from typing import TYPE_CHECKING

from tests.support.faults import reset

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import web

    from tests.support.exchanges import Exchange


class Mode(enum.Enum):
    """What happens to the server's next bytes."""

    PASS = enum.auto()
    STALLED = enum.auto()
    TORN = enum.auto()


class ProxiedWatch:
    """Copies a stream to the client until either side ends it, or a fault does."""

    def __init__(
        self, exchange: Exchange, request: web.Request, response: web.StreamResponse, *, flow: asyncio.Event
    ) -> None:
        self.exchange = exchange
        self._request = request
        self._response = response
        self._flow = flow
        self._mode = Mode.PASS
        # What the client is to get: bytes, or None for the end of the stream. One writer keeps lines whole.
        self._outgoing: asyncio.Queue[bytes | None] = asyncio.Queue()

    def stall(self) -> None:
        """Say nothing more."""
        self._mode = Mode.STALLED

    def tear(self) -> None:
        """Break off in the middle of the next line."""
        self._mode = Mode.TORN

    def say(self, line: bytes) -> None:
        """Send bytes that the server did not."""
        self._outgoing.put_nowait(line)

    def end(self) -> None:
        """End the stream in good order."""
        self._outgoing.put_nowait(None)

    async def run(self, incoming: AsyncIterator[bytes]) -> None:
        """Copy until the end; cancelled when the client goes away."""
        reader = asyncio.create_task(self._read(incoming), name="proxied-watch-read")
        try:
            while (chunk := await self._outgoing.get()) is not None:
                await self._flow.wait()
                if self._mode is Mode.STALLED:
                    continue
                if self._mode is Mode.TORN:
                    await self._response.write(chunk[: len(chunk) // 2])
                    reset(self._request)
                    return
                await self._response.write(chunk)
            if self._mode is Mode.STALLED:
                # A silent stream does not end either.
                await asyncio.Event().wait()
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def _read(self, incoming: AsyncIterator[bytes]) -> None:
        try:
            async for chunk in incoming:
                self._outgoing.put_nowait(chunk)
        finally:
            self._outgoing.put_nowait(None)
