"""The fence for effects outside of the cluster."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from manager.kube.errors import Fenced

_NOT_LEADING = "this process does not lead"
_NOT_RENEWED = "the right to act as the leader was not renewed in time"


class Leadership:
    """Whether this process may act as the leader now, for effects that the API server does not see.

    Writes to the API server are fenced without anybody asking. A call to another service is not: after a
    process has lost its lease, another one may be at work already. So each such effect stands in

        async with manager.leadership.held():
            await store.add(pet)

    which ends it when the lease can no longer be held for sure. What cannot be cancelled, such as a thread,
    asks `permit(seconds=...)` before each step, for as long as that step may take.

    Without an election it permits everything, always.
    """

    def __init__(self, *, elected: bool = True) -> None:
        """With `elected=False` it permits nothing before the first `renewed`."""
        self._deadline = math.inf if elected else -math.inf
        self._ended: str | None = None if elected else _NOT_LEADING
        self._now: Callable[[], float] | None = None
        self._held: set[asyncio.Timeout] = set()

    @property
    def deadline(self) -> float:
        """The loop time until which this process leads for sure, unless it renews before.

        Infinity without an election, minus infinity when it does not lead.
        """
        return self._deadline

    def permit(self, *, seconds: float = 0.0) -> None:
        """Raise `Fenced`, as writes do, unless this process leads now, and for `seconds` to come.

        It costs nothing and may be called in any thread. A leader that renews in time has between the renew
        deadline and two retry periods less to come: 6 to 10 seconds by default. Asking for more fails always.
        """
        if self._ended is not None:
            raise Fenced(self._ended)
        if self._now is not None and self._now() >= self._deadline - seconds:
            raise Fenced(
                _NOT_RENEWED if self._now() >= self._deadline else f"it may not lead for {seconds:g} s more"
            )

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """While entered, this process leads: else the block is cancelled, and raises `Fenced`.

        However long it takes: each renewal of the lease gives it more time. What the other side was sent
        before that may still take effect there, as with any call that is cancelled.
        """
        self.permit()
        limit = asyncio.timeout_at(self._limit)
        try:
            async with limit:
                self._held.add(limit)
                try:
                    yield
                finally:
                    self._held.discard(limit)
        except TimeoutError:
            if not limit.expired():
                raise
            raise Fenced(self._ended or _NOT_RENEWED) from None

    def renewed(self, until: float) -> None:
        """The elector's: this process leads until the loop time `until`."""
        self._now = asyncio.get_running_loop().time
        self._deadline = until
        self._ended = None
        self._reschedule(until)

    def ended(self, reason: str) -> None:
        """The elector's: from now on nothing is permitted, and what is in `held` is cancelled."""
        self._deadline = -math.inf
        self._ended = self._ended or reason
        self._reschedule(asyncio.get_running_loop().time())

    @property
    def _limit(self) -> float | None:
        # Not every event loop takes an infinite time for a timer.
        return None if self._deadline == math.inf else self._deadline

    def _reschedule(self, when: float) -> None:
        for limit in self._held:
            if not limit.expired():
                limit.reschedule(when)
