"""The HTTP/1.1 server: takes connections, until it is stopped."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from devcluster.exchange import Handler
from devcluster.http.connection import Connection

if TYPE_CHECKING:
    import socket
    import ssl

__all__ = ["HttpFront"]

_HANDSHAKE_TIMEOUT = 10.0
_BACKLOG = 512
_CHECK_INTERVAL = 10.0
"""Seconds between two checks for idle connections."""
_STOP_TIMEOUT = 2.0
"""Seconds that running requests get when the server stops; watches end at once."""


class HttpFront:
    """An HTTPS server on one address.

    It is specific to the API server, on a parser in C: a general server takes longer to load than the rest of
    the cluster, and twice as long per request.
    """

    def __init__(self, handle: Handler) -> None:
        """Set up the server; `handle` answers the requests."""
        self._handle = handle
        self._connections: set[Connection] = set()
        self._listener: asyncio.Server | None = None
        self._checking: asyncio.TimerHandle | None = None

    async def start(self, listener: socket.socket, context: ssl.SSLContext | None = None) -> None:
        """Accept connections on a socket that listens, which is closed in the end; without TLS if so told."""
        self._listener = await asyncio.get_running_loop().create_server(
            lambda: Connection(self._handle, self._connections),
            sock=listener,
            ssl=context,
            ssl_handshake_timeout=_HANDSHAKE_TIMEOUT if context else None,
            backlog=_BACKLOG,
        )
        self._check()

    async def stop(self) -> None:
        """Accept nothing more, end the watches as if their time were over, and let the rest finish."""
        if self._checking is not None:
            self._checking.cancel()
        if self._listener is not None:
            self._listener.close()
        tasks = [task for connection in list(self._connections) if (task := connection.stop())]
        if tasks:
            await asyncio.wait(tasks, timeout=_STOP_TIMEOUT)
        await asyncio.sleep(0)
        for connection in list(self._connections):
            connection.abandon()
        # Unfinished requests are cancelled with their connection, and must not outlive the server.
        if tasks:
            await asyncio.wait(tasks, timeout=_STOP_TIMEOUT)
        if self._listener is not None:
            await self._listener.wait_closed()

    def cut_connections(self) -> int:
        """Reset every connection, in the middle of whatever it carries; returns how many there were."""
        connections = list(self._connections)
        for connection in connections:
            connection.reset()
        return len(connections)

    def _check(self) -> None:
        now = time.monotonic()
        for connection in list(self._connections):
            connection.check(now)
        self._checking = asyncio.get_running_loop().call_later(_CHECK_INTERVAL, self._check)
