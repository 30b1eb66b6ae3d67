"""What clients send, and are sent: no more at once, and no more slowly, than there is room and time for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web

__all__ = ["Bodies", "BodyRefused", "Held"]


class BodyRefused(Exception):
    """A body is not read to its end; `code` and `reason` are for the answer, with the message."""

    def __init__(self, code: HTTPStatus, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


@dataclass(eq=False, slots=True)
class Held:
    """One body, and whose it is."""

    request: web.Request
    body: bytes = b""
    counted: int = 0
    """How many bytes of it are held; none any more when it has had to give way."""


class Bodies:
    """Holds the bodies of all requests until they are answered; together they have to fit into memory.

    When there is no room, who has kept us waiting for a while, with a body or for an answer that is not
    taken, has to give way. If nobody has, the newcomer is asked to come again.
    """

    def __init__(
        self,
        *,
        at_once: int = 64 * 1024 * 1024,
        seconds: float = 10.0,
        taken_within: float = 10.0,
        patience: float = 1.0,
    ) -> None:
        """Args:
        at_once: bytes of all of them together. An answer is about as long again, and is not counted.
        seconds: in which a body has to come whole.
        taken_within: seconds in which an answer has to be taken.
        patience: seconds after which who keeps us waiting has to give way.
        """
        self._at_once = at_once
        self._seconds = seconds
        self._taken_within = taken_within
        self._patience = patience
        self._waited_for: dict[Held, float] = {}
        """Whose client has to go on, and since when on the loop's clock; the longest first."""
        self.held = 0
        """Bytes that there are now."""

    @asynccontextmanager
    async def held_body(self, request: web.Request, *, limit: int) -> AsyncIterator[Held]:
        """The body of a request, which counts until the end of the block: send the answer within it.

        Raises `BodyRefused` when it has more bytes than `limit`, takes too long, or finds no room, and
        `ConnectionError` when its sender is gone.
        """
        held = Held(request)
        try:
            with self._waiting_for(held):
                held.body = await self._read(held, limit)
            yield held
        finally:
            self.held -= held.counted

    async def send(self, response: web.Response, held: Held) -> None:
        """Send an answer, within the block of `held_body`; who does not take it in time is cut off."""
        with self._waiting_for(held), suppress(ConnectionError):
            try:
                async with asyncio.timeout(self._taken_within):
                    await response.prepare(held.request)
                    await response.write_eof()
            except TimeoutError:
                _cut_off(held.request)

    async def _read(self, held: Held, limit: int) -> bytes:
        from aiohttp import web  # noqa: PLC0415 - see manager.http.server

        if (held.request.content_length or 0) > limit:
            raise _too_large(limit)
        chunks, size = [], 0
        try:
            async with asyncio.timeout(self._seconds):
                async for chunk in held.request.content.iter_any():
                    chunks.append(chunk)
                    size += len(chunk)
                    self.held += len(chunk)
                    held.counted += len(chunk)
                    if size > limit:
                        raise _too_large(limit)
                    self._make_room(held)
        except TimeoutError:
            text = f"the body has not come within {self._seconds:g} s"
            raise BodyRefused(HTTPStatus.REQUEST_TIMEOUT, "Timeout", text) from None
        except web.RequestPayloadError as error:
            text = f"the body cannot be read: {error}"
            raise BodyRefused(HTTPStatus.BAD_REQUEST, "BadRequest", text) from None
        return b"".join(chunks)

    @contextmanager
    def _waiting_for(self, held: Held) -> Iterator[None]:
        self._waited_for[held] = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            self._waited_for.pop(held, None)

    def _make_room(self, newcomer: Held) -> None:
        latest = asyncio.get_running_loop().time() - self._patience
        while self.held > self._at_once:
            others = (each for each in self._waited_for.items() if each[0] is not newcomer)
            longest, since = next(others, (newcomer, latest + 1))
            if since > latest:
                text = "too much is being answered already; try again"
                raise BodyRefused(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable", text)
            del self._waited_for[longest]
            # Its handler ends with its connection, in a moment.
            self.held -= longest.counted
            longest.counted = 0
            _cut_off(longest.request)


def _cut_off(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _too_large(limit: int) -> BodyRefused:
    return BodyRefused(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "RequestEntityTooLarge",
        f"a review here has at most {limit} bytes",
    )
