"""TCP listener that forwards each connection to a port that a test chooses."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Self

_GONE = (OSError, asyncio.IncompleteReadError, RuntimeError)
"""Errors of a closed connection; uvloop raises RuntimeError for a closed transport."""


async def _nothing(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    """Exchange no data with the client."""


class Forwarder:
    """TCP forwarder that listens on `port` within an `async with` block.

    Attributes:
        connections: number of forwarded connections by target port.
        passed_back: bytes that the targets have sent to the clients.
    """

    def __init__(
        self,
        to: Callable[[], int | None],
        *,
        greet: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]] = _nothing,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """Create a forwarder.

        `greet` may exchange data with each client first. Then `to` returns the target port; None closes the
        connection.
        """
        self._to, self._greet, self._context = to, greet, context
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.connections: Counter[int] = Counter()
        self.passed_back = 0
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task, back in list(self._tasks.items()):
            task.cancel()
            back.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, here: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        # asyncio forgets the task when the client disconnects, so keep it until it has ended.
        task = asyncio.get_running_loop().create_task(self._lead(here, back))
        self._tasks[task] = back
        task.add_done_callback(self._tasks.pop)

    async def _lead(self, here: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        with contextlib.closing(back.transport), contextlib.suppress(*_GONE):
            await self._greet(here, back)
            port = self._to()
            if port is None:
                return
            there, on = await asyncio.open_connection("127.0.0.1", port)
            self.connections[port] += 1
            with contextlib.closing(on.transport):
                await asyncio.gather(_pass_on(here, on), _pass_on(there, back, self._count))

    def _count(self, size: int) -> None:
        self.passed_back += size


async def _pass_on(
    here: asyncio.StreamReader, there: asyncio.StreamWriter, count: Callable[[int], None] = lambda _: None
) -> None:
    with contextlib.suppress(*_GONE):
        while data := await here.read(65536):
            count(len(data))
            there.write(data)
            await there.drain()
    with contextlib.suppress(*_GONE):
        if there.can_write_eof():
            there.write_eof()
        else:
            there.close()  # TLS cannot close only one direction
