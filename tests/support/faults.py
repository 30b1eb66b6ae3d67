"""What may befall a single request on its way through the fault proxy."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
import struct
from typing import TYPE_CHECKING, Never

from aiohttp import web

if TYPE_CHECKING:
    from tests.support.exchanges import Match

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclasses.dataclass(eq=False)
class Fault:
    """Passes the request on unharmed; the others override one of the two moments."""

    match: Match
    times: int | None

    def use_up(self) -> bool:
        """Count one use; True when that was the last."""
        if self.times is not None:
            self.times -= 1
        return self.times == 0

    async def before(self, request: web.Request) -> web.Response | None:
        """Before the server hears of it; a response is sent in the server's place."""

    async def after(self, request: web.Request) -> None:
        """Once the server has answered, before the client hears of it."""


@dataclasses.dataclass(eq=False, kw_only=True)
class Answer(Fault):
    """The proxy answers."""

    status: int
    headers: dict[str, str]
    body: bytes

    async def before(self, request: web.Request) -> web.Response:
        return web.Response(status=self.status, headers=self.headers, body=self.body)


@dataclasses.dataclass(eq=False, kw_only=True)
class Delay(Fault):
    """The request is late."""

    seconds: float

    async def before(self, request: web.Request) -> None:
        await asyncio.sleep(self.seconds)


class NoAnswer(Fault):
    """The connection is reset on the way there."""

    async def before(self, request: web.Request) -> Never:
        reset(request)
        raise ConnectionResetError("as asked for")


class LostAnswer(Fault):
    """The connection is reset on the way back."""

    async def after(self, request: web.Request) -> Never:
        reset(request)
        raise ConnectionResetError("as asked for")


def reset(connection: web.Request | asyncio.Transport) -> None:
    """Drop a client's connection the hard way: it sees a reset, not an end."""
    transport = connection.transport if isinstance(connection, web.Request) else connection
    if transport is None:
        return
    raw = transport.get_extra_info("socket")
    with contextlib.suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    transport.abort()  # type: ignore[attr-defined]
