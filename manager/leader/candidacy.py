"""A standby's wait for the lease."""

from __future__ import annotations

import asyncio
import math
from contextlib import aclosing
from dataclasses import dataclass
from random import Random

from manager import clock
from manager.backoff import Backoff
from manager.kube.errors import AlreadyExists, ApiError, Conflict, KubeError, NotFound, ServerError
from manager.leader.lease import Lease, LeaseTiming
from manager.leader.lease_client import LeaseClient, Troubles

TIMER_ERROR = 1e-6
"""Seconds by which a timer may fire early, because times are rounded: that early is in time."""


async def pause(wake: asyncio.Event, *, until: float) -> None:
    """Return when the event is set, or at the loop time `until` (infinity is never), whichever is first."""
    try:
        # Not every event loop takes an infinite time for a timer.
        async with asyncio.timeout_at(None if until == math.inf else until):
            await wake.wait()
    except TimeoutError:
        pass


class Observation:
    """The lease as last seen, and the local time at which its content was first seen so.

    A holder is taken for alive until its record has stayed the same for the lease duration, on our own
    monotonic clock: what the record says about time was written by another clock, and is not looked at. Only
    the content counts: a label set by somebody is no sign of life.
    """

    def __init__(self, *, identity: str, lease_duration: float) -> None:
        self._identity = identity
        self._lease_duration = lease_duration
        self._lease: Lease | None = None
        self._newest: int | None = None
        self._gone = False
        self._since = -math.inf
        self._current = False

    @property
    def lease(self) -> Lease | None:
        """The lease to build a claim on; None when the server has none."""
        return None if self._gone else self._lease

    @property
    def holder(self) -> str:
        """Who holds it, as last seen; empty when nobody does."""
        return self._lease.holder if self._lease is not None else ""

    @property
    def version(self) -> int | None:
        """The newest version seen; None when versions cannot be ordered."""
        return self._newest

    def saw(self, lease: Lease, *, now: float) -> None:
        """Note the lease as read or watched; an older version than the one known, come late, is ignored."""
        if self._is_stale(lease):
            return
        known = self._lease
        if known is None or (lease.uid, lease.spec) != (known.uid, known.spec):
            self._since = now
        self._lease = lease
        self._newest = lease.version
        self._gone = False
        self._current = True

    def saw_deletion(self, last: Lease) -> None:
        """Note that the lease, whose last state was `last`, was deleted."""
        if not self._is_stale(last):
            self.saw_none()

    def saw_none(self) -> None:
        """Note that the server has no such lease.

        A deletion is no release: whoever held it may still be at work, and will create it again.
        """
        self._gone = True
        self._current = True

    def history_was_rewound(self) -> None:
        """Note that versions started again from an older one, as after etcd was restored from a backup."""
        self._newest = None

    def doubt(self) -> None:
        """Claim no more on this knowledge; the next look at the lease renews it."""
        self._current = False

    def claimable(self, now: float) -> bool:
        """Whether to try to take the lease now."""
        return self._current and now >= self.claimable_at() - TIMER_ERROR

    def claimable_at(self) -> float:
        """The local time from which the lease may be taken unless it changes; infinity while in doubt."""
        if not self._current:
            return math.inf
        if self._lease is None or self._lease.holder in {"", self._identity}:
            return -math.inf
        return self._since + (self._lease.duration or self._lease_duration)

    def _is_stale(self, lease: Lease) -> bool:
        return self._newest is not None and lease.version is not None and lease.version < self._newest


# A look at the lease comes a little before a retry period has passed, so that replicas do not look in step
# and a released lease is found within the period even without a watch.
_LOOK = (0.75, 1.0)
# A watch that reports each renewal makes looking unnecessary; only its silence calls for a look.
_SILENCE = 1.5
# Lease durations without a word after which a watch is taken for dead.
_DEAD_STREAM = 1.5
# Retry periods between attempts to watch, at most, where the server does not let us.
_LONGEST_PAUSE = 30


@dataclass(frozen=True, slots=True)
class Claim:
    """A lease taken: as the server stored it, and the local time at which the claim was sent."""

    lease: Lease
    sent: float


class Candidacy:
    """Waits until the lease is free or its holder has been silent for too long, and takes it.

    Three tasks: one watches the lease, which shows a release at once; one reads it, once each retry period
    at most, whenever the watch has been silent for longer than the leader's renewals allow; one claims it on
    what they see. So neither a dead watch nor a request that hangs delays the others.
    """

    def __init__(
        self, leases: LeaseClient, *, identity: str, timing: LeaseTiming, rng: Random, troubles: Troubles
    ) -> None:
        self._leases = leases
        self._identity = identity
        self._timing = timing
        self._rng = rng
        self._troubles = troubles
        # Without the watch an election only takes longer, so its troubles are logged and no more.
        self._watch_troubles = Troubles()
        self._view = Observation(identity=identity, lease_duration=timing.lease_duration)
        self._wake = asyncio.Event()
        self._stopping = False
        self._next_look = 0.0
        self._uncertain = False

    @property
    def lease(self) -> Lease | None:
        """The lease as last seen."""
        return self._view.lease

    @property
    def uncertain(self) -> bool:
        """Whether the answer to the last claim was lost, so that we may hold the lease without knowing."""
        return self._uncertain

    def stop(self) -> None:
        """Make `win` return, after the claim in flight if there is one."""
        self._stopping = True
        self._wake.set()

    async def win(self) -> Claim | None:
        """Wait for the lease, however long it takes; return None when stopped before."""
        self._next_look = clock.monotonic()
        async with asyncio.TaskGroup() as group:
            helpers = (
                group.create_task(self._keep_looking(), name=f"read lease {self._leases}"),
                group.create_task(self._keep_watching(), name=f"watch lease {self._leases}"),
            )
            try:
                return await self._campaign()
            finally:
                for helper in helpers:
                    helper.cancel()

    async def _campaign(self) -> Claim | None:
        while not self._stopping:
            self._wake.clear()
            if self._view.claimable(clock.monotonic()):
                claim = await self._claim()
                if claim is not None:
                    return claim
            await pause(self._wake, until=self._view.claimable_at())
        return None

    async def _claim(self) -> Claim | None:
        base = self._view.lease or Lease.new(namespace=self._leases.namespace, name=self._leases.name)
        wanted = base.claimed(identity=self._identity, seconds=self._timing.lease_seconds, now=clock.now())
        # Whatever comes of it, the lease has to be seen again before the next claim. Said before the request,
        # because the watch may show it while the answer is on its way.
        self._view.doubt()
        sent = clock.monotonic()
        try:
            lease = await self._leases.write(wanted, timeout=self._timing.attempt_timeout)
        except (Conflict, AlreadyExists, NotFound) as error:
            self._uncertain = False
            if isinstance(error, NotFound) and base.version is None:
                self._troubles.report(f"cannot create lease {self._leases}", error)
            return None  # somebody was faster
        except KubeError as error:
            self._uncertain = not isinstance(error, ApiError) or isinstance(error, ServerError)
            self._troubles.report(f"cannot take lease {self._leases}", error)
            return None
        self._uncertain = False
        self._troubles.clear()
        if clock.monotonic() - sent >= self._timing.renew_deadline:
            # The process was held up while the answer waited, too long to rely on it. The next look finds our
            # own name in the lease, and claims again.
            return None
        return Claim(lease, sent)

    async def _keep_looking(self) -> None:
        while True:
            due = self._next_look
            await asyncio.sleep(due - clock.monotonic())
            if self._next_look > due:
                continue  # put off by the watch meanwhile
            await self._look()
            again = clock.monotonic() + self._timing.retry_period * self._rng.uniform(*_LOOK)
            self._next_look = max(self._next_look, again)

    async def _look(self) -> None:
        known = self._view.version
        try:
            lease = await self._leases.read(timeout=self._timing.attempt_timeout)
        except KubeError as error:
            self._troubles.report(f"cannot read lease {self._leases}", error)
            return
        self._uncertain = False
        if lease is None:
            self._view.saw_none()
        else:
            if known is not None and lease.version is not None and lease.version < known:
                # A read shows at least what was known when it was sent, unless the past has changed.
                self._view.history_was_rewound()
            self._view.saw(lease, now=clock.monotonic())
        self._seen()

    async def _keep_watching(self) -> None:
        retry = self._timing.retry_period
        backoff = Backoff(base=retry, cap=retry * _LONGEST_PAUSE, jitter=0.2, rng=self._rng)
        while True:
            # Renewals come each retry period, and a leader without them is replaced before this silence ends:
            # then it is the stream that is dead.
            silence = self._timing.lease_duration * _DEAD_STREAM
            changes = self._leases.changes(rng=self._rng, silence=silence)
            try:
                async with aclosing(changes):
                    async for lease, gone in changes:
                        backoff.reset()
                        self._watch_troubles.clear()
                        self._heard(lease, gone=gone)
            except KubeError as error:
                self._watch_troubles.report(f"cannot watch lease {self._leases}", error)
            await asyncio.sleep(backoff.next())

    def _heard(self, lease: Lease, *, gone: bool) -> None:
        now = clock.monotonic()
        if gone:
            self._view.saw_deletion(lease)
        else:
            self._view.saw(lease, now=now)
        self._next_look = max(self._next_look, now + self._timing.retry_period * _SILENCE)
        self._seen()

    def _seen(self) -> None:
        if not self._view.claimable(clock.monotonic()):
            # Else a claim follows, which has troubles of its own: those of the last one are not over yet.
            self._troubles.clear()
        self._wake.set()
