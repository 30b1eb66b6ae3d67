"""Sends Events when nothing more important is to be sent, and counts what became of them."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict, deque
from random import Random
from typing import Literal, get_args

from manager import clock
from manager.backoff import Backoff
from manager.events.series import Series
from manager.events.sink import EventSink
from manager.kube.errors import (
    ApiError,
    BadRequest,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    TransportError,
)
from manager.kube.transport import Transport
from manager.logs import get_logger
from manager.metrics import Metrics
from manager.rate_limit import Repeats, TokenBucket

Outcome = Literal[
    "created",  # sent, as a new Event object
    "updated",  # sent, as a higher count of an Event object
    "merged",  # goes with an occurrence that waits to be sent
    "filtered",  # one of too many about the same object; counted when another one is sent
    "overflow",  # dropped for newer ones, because too many were waiting
    "refused",  # the server said no
    "failed",  # the server could not be reached, or could not do it, several times
    "unsent",  # still waiting when the process ended
    "invalid",  # not an event that can be recorded
]


class Outcomes:
    """Counts each outcome; all of them are there from the start, at zero."""

    def __init__(self, metrics: Metrics) -> None:
        self._counters = {outcome: metrics.events_total.labels(outcome) for outcome in get_args(Outcome)}

    def count(self, outcome: Outcome, number: int = 1) -> None:
        """Count `number` events."""
        self._counters[outcome].inc(number)


class Backlog:
    """Series in the order in which they are to be sent, each once; the oldest go when there are too many."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._series: deque[Series] = deque()
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._series)

    def add(self, series: Series) -> Series | None:
        """Append a series that is not waiting yet; return the one that had to go for it, if any."""
        series.waiting = True
        self._series.append(series)
        self._filled.set()
        return self.take() if len(self._series) > self._capacity else None

    async def wait(self) -> None:
        """Wait until there is something to send."""
        await self._filled.wait()

    def take(self) -> Series:
        """Take the oldest; what happens to it from now on is not sent with it any more."""
        series = self._series.popleft()
        series.waiting = False
        if not self._series:
            self._filled.clear()
        return series


_log = get_logger("events")

# An Event is sent once no other write has been in flight for this long (longer than a worker needs between
# two writes) ...
_QUIET = 0.02
# ... or after this long, so that a process that is never quiet still says what it does.
_PATIENCE = 1.0
# While they are, how often to look whether they still are. Only while there are Events to send.
_LOOK = 0.05

_ATTEMPTS = 5


class Outbox:
    """Sends what is in the backlog, one at a time, at a bounded rate, and behind all other writes."""

    def __init__(
        self,
        transport: Transport,
        sink: EventSink,
        *,
        outcomes: Outcomes,
        rng: Random,
        rate: float,
        burst: int,
        capacity: int,
    ) -> None:
        self._transport = transport
        self._sink = sink
        self._outcomes = outcomes
        self._rng = rng
        self._budget = TokenBucket(rate=rate, burst=burst)
        self._backlog = Backlog(capacity)
        self._empty = asyncio.Event()
        self._empty.set()
        self._hurried = False
        self._troubles: defaultdict[type[KubeError], Repeats] = defaultdict(Repeats)

    def put(self, series: Series) -> None:
        """Send the series, with all that has happened by then, in its turn."""
        if series.waiting:
            self._outcomes.count("merged")
            return
        self._empty.clear()
        if self._backlog.add(series) is not None:
            self._outcomes.count("overflow")

    async def run(self) -> None:
        """Send until cancelled; what is not sent by then is lost."""
        try:
            while True:
                await self._backlog.wait()
                await self._await_turn()
                await self._send(self._backlog.take())
                if not self._backlog:
                    self._empty.set()
        finally:
            self._outcomes.count("unsent", len(self._backlog))

    async def flush(self, timeout: float) -> bool:
        """Send what is there, whatever the rate and other writes; return whether all of it went in time."""
        self._hurried = True
        try:
            async with asyncio.timeout(timeout):
                await self._empty.wait()
        except TimeoutError:
            _log.info("events were not sent in time", unsent=len(self._backlog))
            return False
        finally:
            self._hurried = False
        return True

    async def _await_turn(self) -> None:
        started = clock.monotonic()
        quiet_since = math.inf
        while not self._hurried:
            now = clock.monotonic()
            quiet_since = math.inf if self._transport.writes_in_flight else min(quiet_since, now)
            turn = now - quiet_since >= _QUIET or now - started >= _PATIENCE
            if turn and self._budget.try_acquire():
                return
            await asyncio.sleep(_LOOK if quiet_since == math.inf else _QUIET)

    async def _send(self, series: Series) -> None:
        backoff = Backoff(base=1.0, cap=10.0, jitter=0.5, rng=self._rng)
        try:
            while True:
                try:
                    created = await self._sink.write(series)
                except (TransportError, ServerError, TooManyRequests) as error:
                    self._failed(series, error)
                    if backoff.failures >= _ATTEMPTS - 1:
                        self._outcomes.count("failed")
                        return
                    await asyncio.sleep(backoff.next())
                else:
                    self._outcomes.count("created" if created else "updated")
                    return
        except KubeError as error:
            # No right to write Events, a process that may no longer write; or there is nobody to read them.
            if not _is_namespace_gone(error):
                self._failed(series, error)
            self._outcomes.count("refused")
        except asyncio.CancelledError:
            self._outcomes.count("unsent")
            raise

    def _failed(self, series: Series, error: KubeError) -> None:
        # Once, not per Event. Never the message of the Event, nor an error that quotes it.
        times = self._troubles[type(error)].count()
        if times is not None:
            told = type(error).__name__ if isinstance(error, BadRequest | Invalid) else str(error)
            about = str(series.reference)
            _log.warning("cannot send events", error=told, about=about, reason=series.reason, times=times)


def _is_namespace_gone(error: KubeError) -> bool:
    """Whether the namespace is not there any more, or is being deleted."""
    if isinstance(error, NotFound):
        return error.details.get("kind") == "namespaces"
    return isinstance(error, ApiError) and error.is_namespace_terminating
