"""Waiting until a socket has something for us, without taking it."""

from __future__ import annotations

import asyncio
import socket

__all__ = ["readable"]


async def readable(sock: socket.socket) -> None:
    """Return when reading from `sock`, or accepting, would not block.

    What is there is then taken in one step. With the loop's own `sock_accept`, a connection that arrives in
    the moment of a cancellation would be nobody's.
    """
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(sock, _set, ready)
    try:
        await ready
    finally:
        loop.remove_reader(sock)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
