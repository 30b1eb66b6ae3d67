"""A server on this machine that answers byte for byte what a test says.

script = ScriptedServer()
async with wire_to(script) as wire:
    script.answers = [OK, None]
    ...exchange with the wire, and look at script.heads...
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from yarl import URL

from manager.kube.config import ClusterConfig
from manager.kube.credentials import FixedCredentials
from manager.kube.http_wire import HttpWire

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class ScriptedServer:
    """A server that answers each request with the next of the given bytes; `None` hangs up."""

    def __init__(self) -> None:
        self.answers: list[bytes | None] = []
        self.heads: list[bytes] = []
        self.connections = 0
        self.closed = 0
        self._changed = asyncio.Event()
        self.serve: Serve = self.answer

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self.serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            self.closed += 1
            self._changed.set()
            writer.transport.abort()

    async def all_closed(self) -> None:
        while self.closed < self.connections:
            self._changed.clear()
            await self._changed.wait()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            answer = self.answers.pop(0) if self.answers else OK
            if answer is None:
                return
            writer.write(answer)
            await writer.drain()


@asynccontextmanager
async def wire_to(script: ScriptedServer) -> AsyncIterator[HttpWire]:
    """A wire to it over plain HTTP; leaves when every connection is closed."""
    async with await asyncio.start_server(script.accept, "127.0.0.1", 0) as server:
        config = ClusterConfig(
            server=URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"),
            source="test",
            credentials=FixedCredentials(None),
            tls=None,
        )
        wire = HttpWire(config)
        try:
            yield wire
        finally:
            await wire.aclose()
            await script.all_closed()
