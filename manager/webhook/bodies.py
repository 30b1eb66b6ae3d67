"""Reading what clients send: no more at once, and no more slowly, than there is room and time for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web

__all__ = ["Bodies", "BodyRefused"]


class BodyRefused(Exception):
    """A body is not read to its end; `code` and `reason` are for the answer, with the message."""

    def __init__(self, code: HTTPStatus, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class Bodies:
    """Holds the bodies of all requests that are being answered, which together have to fit into memory."""

    def __init__(self, *, at_once: int = 64 * 1024 * 1024, seconds: float = 10.0) -> None:
        """Args:
        at_once: bytes of all of them together. What comes beyond that is asked to come again.
        seconds: in which one has to come whole.
        """
        self._at_once = at_once
        self._seconds = seconds
        self.held = 0
        """Bytes that there are now."""

    @asynccontextmanager
    async def held_body(self, request: web.Request, *, limit: int) -> AsyncIterator[bytes]:
        """The body of a request, which counts until the end of the block.

        Raises `BodyRefused` when it has more bytes than `limit`, takes too long, or finds no room, and
        `ConnectionError` when its sender is gone.
        """
        body = bytearray()
        try:
            await self._read(request, body, limit)
            yield bytes(body)
        finally:
            self.held -= len(body)

    async def _read(self, request: web.Request, body: bytearray, limit: int) -> None:
        from aiohttp import web  # noqa: PLC0415 - see manager.http.server

        if (request.content_length or 0) > limit:
            raise _too_large(limit)
        try:
            async with asyncio.timeout(self._seconds):
                async for chunk in request.content.iter_any():
                    self.held += len(chunk)
                    body += chunk
                    if len(body) > limit:
                        raise _too_large(limit)
                    if self.held > self._at_once:
                        text = "too much is being answered already; try again"
                        raise BodyRefused(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable", text)
        except TimeoutError:
            text = f"the body has not come within {self._seconds:g} s"
            raise BodyRefused(HTTPStatus.REQUEST_TIMEOUT, "Timeout", text) from None
        except web.RequestPayloadError as error:
            text = f"the body cannot be read: {error}"
            raise BodyRefused(HTTPStatus.BAD_REQUEST, "BadRequest", text) from None


def _too_large(limit: int) -> BodyRefused:
    return BodyRefused(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "RequestEntityTooLarge",
        f"a review here has at most {limit} bytes",
    )
