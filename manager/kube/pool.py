"""A pool of HTTP connections of which every socket can be reset at once."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections import deque
from weakref import WeakSet

from aiohappyeyeballs import AddrInfoType

from manager.kube.config import ClusterConfig
from manager.kube.connection import Connection
from manager.kube.dial import dial
from manager.kube.errors import ConnectionLost
from manager.kube.names import Names

KEEP_ALIVE = 30.0
"""Seconds for which an idle connection is kept: well below the 90 of an API server, which would otherwise
close it just when it is used again."""

KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_COUNT = 15, 5, 3
"""Seconds of silence before the peer is asked whether it is there, seconds between questions, and their
number."""

USER_TIMEOUT = 30
"""Seconds for which what was sent may stay unacknowledged."""

_KEEPALIVE = {
    "TCP_KEEPIDLE": KEEPALIVE_IDLE,
    "TCP_KEEPALIVE": KEEPALIVE_IDLE,  # how macOS calls it
    "TCP_KEEPINTVL": KEEPALIVE_INTERVAL,
    "TCP_KEEPCNT": KEEPALIVE_COUNT,
    "TCP_USER_TIMEOUT": USER_TIMEOUT * 1000,
}

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""A struct linger: on, with no time to deliver what is still buffered."""


class Connections:
    """Connections to one server, and the sockets under them.

    The connection that came back last is used next, so that those there are too many of grow old and go.

    Whoever uses a connection holds one of `limit` turns, except for streams.
    """

    def __init__(self, config: ClusterConfig, names: Names, limit: int) -> None:
        """At most `limit` connections are in use at once; those of streams do not count."""
        self._free = limit
        self._waiting = 0
        self._turns = asyncio.Semaphore(0)
        """Those that were handed over to who waits."""
        self._config = config
        self._names = names
        self._is_reset = False
        self._idle: deque[Connection] = deque()
        self._open: WeakSet[Connection] = WeakSet()
        self._expiry: asyncio.TimerHandle | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()

    def take_turn(self) -> bool:
        """Take a turn if there is a free one."""
        if not self._free:
            return False
        self._free -= 1
        return True

    async def wait_turn(self) -> None:
        """Take the next turn that is given back."""
        self._waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self._waiting -= 1

    def give_turn_back(self) -> None:
        """Hand a turn over to who waits, or have it free."""
        if self._waiting:
            self._turns.release()
        else:
            self._free += 1

    def take_idle(self, context: ssl.SSLContext | None) -> Connection | None:
        """A connection that was made with this TLS context and is idle; to be given back in any case.

        Raises:
            ConnectionLost: connections were reset.
        """
        self._refuse_after_reset()
        while self._idle:
            connection = self._idle.pop()
            # Once files have changed, the connections made with the earlier context are of no use.
            if connection.is_idle and connection.context is context:
                return connection
            connection.abort()
        return None

    async def open(self, context: ssl.SSLContext | None) -> Connection:
        """A new connection with this TLS context; to be given back in any case.

        Raises:
            Unreachable: none came up.
            ConnectionLost: connections were reset.
        """
        connection = await dial(self._config, context, self._names, self._open_socket)
        self._open.add(connection)
        try:
            self._refuse_after_reset()
        except ConnectionLost:
            connection.abort()
            raise
        return connection

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for others; one whose answer was not read to its end is dropped."""
        if self._is_reset or not connection.is_idle:
            # Nobody wants the rest, and there may be no peer left to say so to.
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._expiry is None:
            self._expiry = loop.call_later(KEEP_ALIVE, self._expire)

    def reset(self) -> None:
        """Reset every connection, those coming up included; no further one can be opened.

        What is still buffered is discarded, also of a connection that is just being closed.
        """
        self._is_reset = True
        for each in list(self._sockets):
            with contextlib.suppress(OSError):  # closed already
                # The event loop finds the connection at its end and closes it, which resets it.
                each.shutdown(socket.SHUT_RDWR)
        for connection in list(self._open):
            # That end must not look as if it were the server's, and the end of an answer.
            connection.abort()

    async def aclose(self) -> None:
        """Close all connections."""
        self._is_reset = True
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self._idle.clear()
        for connection in list(self._open):
            connection.abort()
            await connection.wait_closed()

    def _refuse_after_reset(self) -> None:
        if self._is_reset:
            raise ConnectionLost("connections were reset")

    def _expire(self) -> None:
        """Close what has been idle for too long."""
        loop = asyncio.get_running_loop()
        while self._idle and self._idle[0].idle_since + KEEP_ALIVE <= loop.time():
            self._idle.popleft().abort()
        self._expiry = None
        if self._idle:
            self._expiry = loop.call_at(self._idle[0].idle_since + KEEP_ALIVE, self._expire)

    def _open_socket(self, address: AddrInfoType) -> socket.socket:
        if self._is_reset:
            raise ConnectionAbortedError("connections were reset")
        family, kind, protocol, *_ = address
        opened = socket.socket(family, kind, protocol)
        opened.setblocking(False)
        # Whoever closes a connection here wants nothing more of it. In good order, the system would go on
        # delivering a write that was given up, for minutes if the network is down, even for a process
        # that has died meanwhile.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        _notice_death(opened)
        self._sockets.add(opened)
        return opened


def _notice_death(opened: socket.socket) -> None:
    """Have the system end the connection when the peer, or the way to it, is gone without a word."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if (option := getattr(socket, name, None)) is not None:
            with contextlib.suppress(OSError):  # this system takes as long as it takes
                opened.setsockopt(socket.IPPROTO_TCP, option, value)
