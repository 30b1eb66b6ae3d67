"""What a request carries, and its last question before it leaves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.abc import AbstractStreamWriter

PIECE = 256 * 1024
"""Bytes handed to the socket at once: what takes longer to encrypt would hold up the event loop."""


class Body(aiohttp.Payload):
    """The bytes of one request, each piece of which leaves only if it is still permitted.

    Having a connection is not yet sending: before Python 3.12 aiohttp writes in a task of its own, which gets
    its turn later, and a large body waits for the network between its pieces. aiohttp keeps the head of the
    request back until the first piece comes, so that a request refused then has not begun; one refused later
    is never complete, and no server acts on it. aiohttp closes the connection in either case, and reports
    that as a broken one: `refused` is the reason.
    """

    _autoclose = True  # there is nothing to close, which aiohttp would warn of otherwise

    def __init__(self, value: bytes, permit: Callable[[], None] | None) -> None:
        """`permit` is `WireRequest.permit`."""
        super().__init__(value)
        self._size = len(value)
        self._permit = permit
        self.refused: Exception | None = None

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The bytes as text; aiohttp wants every payload to have it."""
        return str(self._value, encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Hand everything to the socket."""
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:  # noqa: ARG002 - it is that of the body
        """Hand everything to the socket."""
        for start in range(0, self._size or 1, PIECE):
            if start:
                await asyncio.sleep(0)
            self._ask()
            # Nothing may come in between: this writes before it waits for anything.
            await writer.write(self._value[start : start + PIECE])

    def _ask(self) -> None:
        if self._permit is not None:
            try:
                self._permit()
            except Exception as error:
                self.refused = error
                raise
