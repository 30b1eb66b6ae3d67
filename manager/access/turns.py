"""Whose question the API server is asked next: strangers wait for each other, and nobody for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from manager.rate_limit import TokenBucket

__all__ = ["TooManyStrangers", "Turns"]

KNOWN_AT_ONCE = 8
"""Questions under way at once for those whom the server has accepted before; more of them wait."""

STRANGERS_AT_ONCE = 4
"""Questions under way at once for all others."""

STRANGERS_PER_SECOND = 20
"""How often the server is asked for all of them, in the mean."""

WAITING = 8
"""Strangers of one client whose question waits or is under way; more are turned away."""

PATIENCE = 5.0
"""Seconds that a stranger waits for a turn."""


class TooManyStrangers(Exception):
    """More ask with tokens that are not known than the API server is asked about."""


@dataclass(slots=True)
class _Client:
    asking: int = 0
    turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))


class Turns:
    """Enter one of its contexts for each question.

    What a stranger costs the API server is bounded, and clients who come with unknown tokens have their turns
    one after the other: one who sends a thousand does not keep back another who sends one.
    """

    def __init__(self) -> None:
        self._known = asyncio.Semaphore(KNOWN_AT_ONCE)
        self._strangers = asyncio.Semaphore(STRANGERS_AT_ONCE)
        self._pace = TokenBucket(rate=STRANGERS_PER_SECOND, burst=STRANGERS_PER_SECOND)
        self._clients: dict[str, _Client] = {}

    @asynccontextmanager
    async def of_known(self) -> AsyncIterator[None]:
        """A turn for one whom the server has accepted before."""
        async with self._known:
            yield

    @asynccontextmanager
    async def of_stranger(self, client: str) -> AsyncIterator[None]:
        """A turn for anybody else; `client` says where they are. Raises `TooManyStrangers`."""
        here = self._clients.setdefault(client, _Client())
        if here.asking >= WAITING:
            raise TooManyStrangers(f"{WAITING} questions for unknown tokens from one client wait already")
        here.asking += 1
        try:
            async with AsyncExitStack() as stack:
                try:
                    async with asyncio.timeout(PATIENCE):
                        # One of each client stands in the common queue, so it goes round them all.
                        await stack.enter_async_context(here.turn)
                        await stack.enter_async_context(self._strangers)
                        await self._pace.acquire()
                except TimeoutError:
                    raise TooManyStrangers("too many questions for unknown tokens wait already") from None
                yield
        finally:
            here.asking -= 1
            if not here.asking:
                del self._clients[client]
