"""Retries of requests while the server cannot answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from manager.kube.errors import (
    ApiError,
    Conflict,
    ServerError,
    ServerTimeout,
    ServiceUnavailable,
    TooManyRequests,
    TransportError,
)
from manager.kube.transport import Transport
from manager.util.backoff import Backoff

T = TypeVar("T")

RETRY_FOR = 120.0
"""Seconds for which a server may be down or overloaded, as in a restart or a change of etcd's leader."""

ATTEMPTS = 4
"""How often a request is sent that fails although the server answers: the reason is likely to stay."""

_AWAY = TransportError, TooManyRequests, ServiceUnavailable, ServerTimeout


class RetryingClient:
    """Client that sends requests, and retries each with back-off where that may help.

    The requests of a migration may all be sent twice: they read, or write what is there already.
    """

    def __init__(self, transport: Transport, rng: random.Random, *, tell: Callable[[str], object]) -> None:
        """`tell` gets the reason why the server is waited for."""
        self.once = transport.request
        self._rng = rng
        self._tell = tell

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        """Send a request with retries, as `Transport.request` does."""
        return await self.retry(lambda: self.once(method, path, **options))

    async def retry(self, send: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `send`. Raises its last error when the time for retries is over."""
        clock = asyncio.get_running_loop().time
        backoff = Backoff(base=0.25, cap=10.0, jitter=0.5, rng=self._rng)
        give_up_at = clock() + RETRY_FOR
        failed = 0
        while True:
            try:
                return await send()
            except _AWAY as error:
                pause = _pause(error, backoff)
                if clock() + pause >= give_up_at:
                    raise
                self._tell(str(error))
            except (ServerError, Conflict) as error:
                failed += 1
                if failed >= ATTEMPTS:
                    raise
                pause = _pause(error, backoff)
            await asyncio.sleep(pause)


def _pause(error: Exception, backoff: Backoff) -> float:
    asked = error.retry_after if isinstance(error, ApiError) else None
    return asked or backoff.next()
