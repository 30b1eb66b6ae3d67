"""A pool of HTTP connections of which every socket can be reset at once."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from contextvars import ContextVar
from typing import TYPE_CHECKING
from weakref import WeakSet

import aiohttp

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.connector import AddrInfoType, Connection
    from aiohttp.tracing import Trace

CONNECT_TIMEOUT = 10.0
"""Seconds for a connection to come up, TLS included."""

KEEP_ALIVE = 30.0
"""Seconds for which an idle connection is kept: well below the 90 of an API server, which would otherwise
close it just when it is used again."""

READ_BUFFER = 256 * 1024
"""Bytes read ahead of whoever consumes an answer."""

HEADER_LIMIT = 64 * 1024
"""Bytes of one header of an answer; the warnings of admission policies can be long."""

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""A struct linger: on, with no time to deliver what is still buffered."""


class Connections:
    """An aiohttp session, and the sockets that it opened."""

    def __init__(self, limit: int) -> None:
        """At most `limit` connections are in use at once; those of streams do not count."""
        self.session = aiohttp.ClientSession(
            connector=_Connector(
                limit=0,
                keepalive_timeout=KEEP_ALIVE,
                socket_factory=self._open_socket,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT),
            auto_decompress=False,
            trust_env=False,
            read_bufsize=READ_BUFFER,
            max_line_size=HEADER_LIMIT,
            max_field_size=HEADER_LIMIT,
            middlewares=(_send_once,),
        )
        self.free = asyncio.Semaphore(limit)
        self.is_reset = False
        self._sockets: WeakSet[socket.socket] = WeakSet()

    def reset(self) -> None:
        """Reset every connection, those coming up included; no further one can be opened.

        What is still buffered is discarded, also of a connection that is just being closed.
        """
        self.is_reset = True
        for each in list(self._sockets):
            with contextlib.suppress(OSError):  # closed already
                # The event loop finds the connection at its end and closes it, which resets it.
                each.shutdown(socket.SHUT_RDWR)

    async def aclose(self) -> None:
        """Close all connections."""
        await self.session.close()

    def _open_socket(self, address: AddrInfoType) -> socket.socket:
        if self.is_reset:
            raise ConnectionAbortedError("connections were reset")
        family, kind, protocol, *_ = address
        opened = socket.socket(family, kind, protocol)
        # Whoever closes a connection here wants nothing more of it. In good order, the system would go on
        # delivering a write that was given up, for minutes if the network is down, even for a process
        # that has died meanwhile.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._sockets.add(opened)
        return opened


permit: ContextVar[Callable[[], None] | None] = ContextVar("permit", default=None)
"""The `WireRequest.permit` of the request that the current task is sending; `Body` asks it once more."""


class _Connector(aiohttp.TCPConnector):
    """Asks for the permit once there is a connection: making one can take long."""

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        if (ask := permit.get()) is not None:
            try:
                ask()
            except BaseException:
                connection.release()
                raise
        return connection


async def _send_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Keep aiohttp from sending PUT and DELETE again on its own when the connection breaks."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientConnectionError(str(error)) from error
