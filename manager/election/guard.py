"""The right to write and to act: it ends with the first lease that is not renewed in time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from manager.election.config import ElectionConfig
from manager.kube.errors import Fenced
from manager.util import clock

_NOT_LEADING = "this process does not lead"
_NOT_RENEWED = "the right to act as the leader was not renewed in time"
_LOST = "the lease was lost"
# Parts of the time from the renew deadline until others may take over: to end in order, and to end at all.
_STOP_WITHIN = 0.8
_GONE_WITHIN = 0.95


class LeadershipLost(Exception):
    """The loss of the leadership, after which nothing is written; the text gives the reason for the log."""


class ProcessGuard:
    """The right of this process to write to the API server, and to live, until a lease is lost."""

    def __init__(self, config: ElectionConfig) -> None:
        self._transport = config.transport
        self._watchdog = config.watchdog
        self._margin = config.timing.lease_duration - config.timing.renew_deadline
        self._deadlines: dict[str, float] = {}

    def renewed(self, lease: str, deadline: float) -> None:
        """Note that the lease is held until the loop time `deadline`."""
        self._deadlines[lease] = deadline
        self._set()

    def released(self, lease: str) -> None:
        """Note that the lease is not needed any more."""
        del self._deadlines[lease]
        self._set()

    def close(self, lease: str, reason: str) -> None:
        """Send no more writes, and drop those in flight: the lease was lost."""
        # Here and now, before anything else gets to run: the next write could already be one too many.
        self._transport.fence(reason)
        # As its deadline from now on, which no renewal of another lease puts off.
        self.renewed(lease, min(self._deadlines[lease], clock.monotonic()))

    def _set(self) -> None:
        lost = min(self._deadlines.values(), default=None)
        self._transport.fence_at(lost)
        if lost is None:
            self._watchdog.lift(_LOST)
        else:
            when, latest = (lost + part * self._margin for part in (_STOP_WITHIN, _GONE_WITHIN))
            self._watchdog.limit(_LOST, when, latest=latest, since=lost)


class Leadership:
    """The right to act as the leader, for effects that the API server does not see.

    Writes to the API server are fenced automatically. A call to another service is not: after a process has
    lost its lease, another one may be at work already. So each such effect stands in

        async with manager.leadership.held():
            await store.add(pet)

    which ends it when this process may no longer hold the lease. Work that cannot be cancelled, such as a
    thread, calls `permit(seconds=...)` before each step, for as long as that step may take.

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

        Any thread may call it. A leader that renews in time has 6 to 10 seconds to come by default. Asking
        for more fails always.
        """
        if self._ended is not None:
            raise Fenced(self._ended)
        if self._now is not None and self._now() >= self._deadline - seconds:
            raise Fenced(
                _NOT_RENEWED if self._now() >= self._deadline else f"it may not lead for {seconds:g} s more"
            )

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Cancel the block, and raise `Fenced`, as soon as this process does not lead any more.

        Each renewal of the lease gives it more time. A request that was sent before may still take effect.
        """
        self.permit()
        # Not every event loop takes an infinite time for a timer.
        limit = asyncio.timeout_at(None if self._deadline == math.inf else self._deadline)
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
        """Permit everything until the loop time `until`. For the elector."""
        self._now = asyncio.get_running_loop().time
        self._deadline = until
        self._ended = None
        self._reschedule(until)

    def ended(self, reason: str) -> None:
        """Permit nothing from now on, and cancel all blocks in `held`. For the elector."""
        self._deadline = -math.inf
        self._ended = self._ended or reason
        self._reschedule(asyncio.get_running_loop().time())

    def _reschedule(self, when: float) -> None:
        for limit in self._held:
            if not limit.expired():
                limit.reschedule(when)
