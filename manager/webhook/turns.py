"""Whose turn it is to be answered: small reviews side by side, of the others one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from manager.webhook.bounds import SMALL
from manager.webhook.unanswered import Busy

__all__ = ["Turns"]


class Turns:
    """Lets reviews be worked on so that neither the loop nor a small review waits for a large one for long.

    The small ones of many connections may come at once, and each takes its milliseconds: as many as make up
    `SMALL` bytes are begun in one turn of the loop, and at least one.
    """

    def __init__(self, *, waits: float = 5.0) -> None:
        """`waits`: seconds after which a large review is asked to come again."""
        self._waits = waits
        self._one_at_a_time = asyncio.Lock()
        self._left = SMALL
        """Bytes that may still be begun in this turn of the loop."""

    @asynccontextmanager
    async def taken(self, size: int) -> AsyncIterator[None]:
        """Enter this to work on a review of so many bytes. Raises `Busy`."""
        if size <= SMALL:
            await self._begin(size)
            yield
            return
        try:
            async with asyncio.timeout(self._waits):
                await self._one_at_a_time.acquire()
        except TimeoutError:
            raise Busy("too many large reviews are being answered already; try again") from None
        try:
            await asyncio.sleep(0)
            yield
        finally:
            self._one_at_a_time.release()

    async def _begin(self, size: int) -> None:
        while size > self._left < SMALL:  # noqa: ASYNC110 - a turn of the loop is what is waited for
            await asyncio.sleep(0)
        if self._left == SMALL:
            asyncio.get_running_loop().call_soon(self._renew)
        self._left -= size

    def _renew(self) -> None:
        self._left = SMALL
