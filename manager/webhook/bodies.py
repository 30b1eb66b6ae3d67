"""Bodies of requests and answers, with limits for memory and time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from manager.util.loop import SMALL
from manager.webhook.errors import Busy

JSON = "application/json"

_PIECE = 64 * 1024
"""Bytes of an answer that are sent at once."""


class BodyRefused(Exception):
    """A body is not read to its end; `code` and `reason` are for the answer, with the message."""

    def __init__(self, code: HTTPStatus, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


@dataclass(eq=False, slots=True)
class Held:
    """A body, and its request."""

    request: web.Request
    body: bytes | bytearray = b""
    counted: int = 0
    """How many bytes are kept for it and its answer; none any more when it has had to give way."""


class Bodies:
    """Memory limit for the bodies of all requests and their answers together.

    A small body needs none: there are no more of them than connections. A larger one says how long it is,
    and waits until there is room for it and an answer of its length; of those that wait the smallest is
    first. A client that has made the server wait for a while, with a body or with an answer that it does not
    read, gives way.
    """

    def __init__(
        self,
        *,
        at_once: int = 24 * 1024 * 1024,
        small: int = SMALL,
        seconds: float = 10.0,
        taken_within: float = 10.0,
        patience: float = 1.0,
        waits: float = 5.0,
    ) -> None:
        """Set the limits of request bodies.

        Args:
            at_once: maximum bytes of all bodies together.
            small: bytes up to which a body needs no reservation.
            seconds: time limit for receiving a whole body.
            taken_within: seconds within which a client must read the answer.
            patience: seconds after which a client that keeps others waiting loses its place.
            waits: seconds after which a request without room is asked to come again.
        """
        self._at_once = at_once
        self._small = small
        self._seconds = seconds
        self._taken_within = taken_within
        self._patience = patience
        self._waits = waits
        self._waited_for: dict[Held, float] = {}
        """Whose client has to go on, and since when on the loop's clock; the longest first."""
        self._line: set[tuple[int, int]] = set()
        """How many bytes those want who wait for room, each with a number of its own."""
        self._numbers = itertools.count()
        self._changed = asyncio.Event()
        self.held = 0
        """Bytes that are kept now."""

    @asynccontextmanager
    async def held_body(self, request: web.Request, *, limit: int) -> AsyncIterator[Held]:
        """Yield the body of a request, with room reserved for it until the end of the block.

        Send the answer within the block. Raises `BodyRefused` when the body has more bytes than `limit` or
        takes too long, and `Busy` when there is no room for it.
        """
        length = request.content_length or 0
        if length > limit:
            raise _too_large(limit)
        held = Held(request)
        try:
            if length > self._small:
                await self._find_room(held, 2 * length)
            with self._waiting_for(held):
                held.body = await self._read(request)
            yield held
        finally:
            self._give_back(held)

    async def send(self, answer: bytes | bytearray, held: Held) -> web.StreamResponse:
        """Send an answer, within the block of `held_body`; a client that does not read it in time is cut off.

        A large one goes in pieces: TLS copies what is written, whether or not the client reads.
        """
        response, rest = web.StreamResponse(), answer
        if len(answer) <= _PIECE:
            response, rest = web.Response(body=answer), b""
        response.content_type = JSON
        response.headers["Content-Length"] = str(len(answer))
        with self._waiting_for(held), suppress(ConnectionError):
            try:
                async with asyncio.timeout(self._taken_within):
                    await response.prepare(held.request)
                    for start in range(0, len(rest), _PIECE):
                        await response.write(rest[start : start + _PIECE])
                    await response.write_eof()
            except TimeoutError:
                _cut_off(held)
        return response

    async def _read(self, request: web.Request) -> bytearray:
        body = bytearray()
        try:
            async with asyncio.timeout(self._seconds):
                while part := await request.content.readany():
                    body += part
            return body
        except TimeoutError:
            text = f"the body has not come within {self._seconds:g} s"
            raise BodyRefused(HTTPStatus.REQUEST_TIMEOUT, "Timeout", text) from None

    @contextmanager
    def _waiting_for(self, held: Held) -> Iterator[None]:
        self._waited_for[held] = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            self._waited_for.pop(held, None)

    async def _find_room(self, held: Held, size: int) -> None:
        place = (size, next(self._numbers))
        self._line.add(place)
        try:
            async with asyncio.timeout(self._waits):
                while place != min(self._line) or not self._is_room(size):
                    self._changed.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._patience):
                            await self._changed.wait()
        except TimeoutError:
            raise Busy("too much is being answered already; try again") from None
        finally:
            self._line.discard(place)
            self._changed.set()
        held.counted = size
        self.held += size

    def _is_room(self, size: int) -> bool:
        """Whether so much more fits, once those have given way who have kept us waiting for too long."""
        latest = asyncio.get_running_loop().time() - self._patience
        slow = [held for held, since in self._waited_for.items() if held.counted and since <= latest]
        for each in slow:
            if self.held + size <= self._at_once:
                break
            # Its handler ends with its connection, in a moment.
            self._give_back(each)
            _cut_off(each)
        return self.held + size <= self._at_once

    def _give_back(self, held: Held) -> None:
        self.held -= held.counted
        held.counted = 0
        self._changed.set()


def _cut_off(held: Held) -> None:
    if (transport := held.request.transport) is not None:
        transport.abort()


def _too_large(limit: int) -> BodyRefused:
    return BodyRefused(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "RequestEntityTooLarge",
        f"a review here has at most {limit} bytes",
    )
