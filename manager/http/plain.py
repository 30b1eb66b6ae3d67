"""Plain HTTP on a port for HTTPS: a common mistake, which gets an answer in its own words."""

from __future__ import annotations

import asyncio
import socket

from manager.http.limits import Limits
from manager.http.readable import readable

__all__ = ["begins_tls"]

_TEXT = b"this port is for HTTPS, and the request came over plain HTTP\n"
_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_TEXT), _TEXT)
)

_MUCH = 65536


async def begins_tls(connection: socket.socket, limits: Limits) -> bool:
    """Whether what comes over an accepted connection may be TLS, which is looked at and left where it is.

    A request of plain HTTP is answered here; all that is left to do with its connection is to close it.
    Raises `TimeoutError` when nothing comes in the time for a handshake, and `OSError` like any socket.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(limits.handshake):
        first = await _first_byte(connection)
    # Methods of HTTP are capitals, and a TLS record begins with the number of its sort, 22.
    if not (b"A" <= first <= b"Z"):
        return True
    async with asyncio.timeout(limits.goodbye):
        await loop.sock_sendall(connection, _ANSWER)
        connection.shutdown(socket.SHUT_WR)
        # To close it with something unread would be a reset, which can overtake the answer.
        while await loop.sock_recv(connection, _MUCH):
            pass
    return False


async def _first_byte(connection: socket.socket) -> bytes:
    """The first byte to come; empty when the other side has closed."""
    await readable(connection)
    return connection.recv(1, socket.MSG_PEEK)
