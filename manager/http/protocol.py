"""HTTP/1.1 on one connection of a server: from the bytes of a head to a request, and on to its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from manager.http.request import NoRequest, Request
from manager.logs import get_logger

_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

_log = get_logger("http")


class HttpProtocol(asyncio.Protocol):
    """Speaks with one client. `Connection` is before it: it passes on a head whole, and one at a time."""

    def __init__(
        self, answer: Callable[[Request], Awaitable[None]], is_last: Callable[[Request], bool]
    ) -> None:
        """Args:
        answer: answers a request, and raises no error of its page.
        is_last: whether the server wants a connection to end with this answer.
        """
        self._answer = answer
        self._is_last = is_last
        self._transport: asyncio.Transport | None = None
        self._request: Request | None = None
        """The one that is answered."""
        self._room = asyncio.Event()
        """Set while the client takes what it is sent."""
        self._room.set()
        self.task: asyncio.Task[None] | None = None
        """What answers a request, until it has."""

    # What the connection calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Its client may ask."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """A head, or a part of the body of the request that is being answered."""
        if self._request is not None:
            self._request.body.feed(data)
            return
        assert self._transport is not None
        try:
            self._request = Request(data, self._transport, self)
        except NoRequest as error:
            # What it says quotes what came, and there may be a token in that.
            _log.debug("not a request", error=type(error.__context__ or error).__name__)
            self._transport.write(_BAD_REQUEST)
            self._transport.close()
            return
        self.task = asyncio.get_running_loop().create_task(self._attend(self._request), name="http-answer")

    def pause_writing(self) -> None:
        """The client takes an answer more slowly than it is made."""
        self._room.clear()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - whatever it was, it is over
        """Nobody is there any more."""
        self._transport = self._request = None
        if self.task is not None:
            self.task.cancel()

    # What answers call.

    async def write(self, data: bytes | bytearray) -> None:
        """Return when the client has room for more. Raises `ConnectionError` when it is gone."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the client is gone")
        self._transport.write(data)
        await self._room.wait()

    def is_last(self, request: Request) -> bool:
        """Whether the answer to this request is the last one here: the rest of a body is not read."""
        return not request.is_complete or self._is_last(request)

    async def _attend(self, request: Request) -> None:
        try:
            await self._answer(request)
        except ConnectionError:
            return  # nobody is there to be told
        finally:
            self._request = self.task = None  # or each would hold the other, and what has come
        transport = self._transport
        if transport is None or request.keeps_alive:
            return
        if request.is_complete or not transport.can_write_eof():
            transport.close()
        else:
            # To close it with something unread would be a reset, which can overtake the answer.
            transport.write_eof()
