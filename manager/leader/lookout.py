"""What the Leases say, as the server last told it: who holds each, and since when it has been silent."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import aclosing
from random import Random

from manager import clock
from manager.backoff import Backoff
from manager.kube.errors import KubeError
from manager.leader.lease import Lease, LeaseTiming
from manager.leader.lease_client import LeaseSet, Troubles

BELIEVED = 4.0
"""Lease durations that are believed, at most, of another replica that shares the objects, or of the holder of
a deleted lease: one may be set otherwise, but nobody may keep others out for longer by what they write."""

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

    A record that was written with our own clock, by a process of the same host, is as old as it says. So a
    container that is started in the place of one that was killed need not wait for all of the duration.
    """

    def __init__(self, *, identity: str, timing: LeaseTiming) -> None:
        self._identity = identity
        self._lease_duration = timing.lease_duration
        self._clock = timing.clock
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

    def saw(self, lease: Lease, *, now: float) -> bool:
        """Note the lease as read or watched; False if its holder, who was known to be alive, has renewed it.

        An older version than the one known is ignored, and a reason to look: it came late, or the history was
        rewound, and all that follows is older too.
        """
        if self._is_stale(lease):
            self.doubt()
            return True
        known = self._lease
        silent = now >= min(self.expires_at, self._since + self._lease_duration)
        renewed = known is not None and lease.renews(known) and not (silent or self._gone or self.doubtful)
        if known is None or (lease.uid, lease.spec) != (known.uid, known.spec):
            sent = lease.sent_at(self._clock)
            self._since = now if sent is None else min(sent, now)
        self._lease = lease
        self._newest = lease.version
        self._gone = False
        self._current = True
        return not renewed

    def saw_deletion(self, last: Lease) -> None:
        """Note that the lease, whose last state was `last`, was deleted."""
        if self._is_stale(last):
            self.doubt()
        else:
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

    @property
    def doubtful(self) -> bool:
        """Whether it has to be seen again before the next claim."""
        return not self._current

    @property
    def since(self) -> float:
        """The local time at which its content was first seen so."""
        return self._since

    @property
    def expires_at(self) -> float:
        """The local time at which its holder's time is over, unless it changes."""
        return self._since + self._duration

    def expired_for(self, now: float) -> float:
        """Seconds since its holder's time was over; less than zero while it is not."""
        return now - self.expires_at

    def claimable(self, now: float) -> bool:
        """Whether to try to take the lease now."""
        return self._current and now >= self.claimable_at() - TIMER_ERROR

    def claimable_at(self) -> float:
        """The local time from which the lease may be taken unless it changes; infinity while in doubt."""
        if not self._current:
            return math.inf
        if self._lease is None or self._lease.holder in {"", self._identity}:
            return -math.inf
        return self.expires_at

    @property
    def _duration(self) -> float:
        claimed = self._lease.duration if self._lease is not None else None
        # Whoever is at work creates it again; who claimed years for nobody does not.
        longest = BELIEVED * self._lease_duration if self._gone else math.inf
        return min(claimed or self._lease_duration, longest)

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


class Lookout:
    """Keeps what is known of some Leases current, while `run` does.

    Two tasks: one watches them, which shows a release at once; one reads them, once each retry period at
    most, whenever the watch has been silent for longer than renewals allow. So neither a dead watch nor a
    request that hangs delays the other.
    """

    def __init__(self, leases: LeaseSet, *, identity: str, timing: LeaseTiming, rng: Random) -> None:
        self._leases = leases
        self._identity = identity
        self._timing = timing
        self._rng = rng
        self._troubles = Troubles()
        # Without the watch all takes longer and no more, so its troubles are logged only.
        self._watch_troubles = Troubles()
        self._views: dict[str, Observation] = {}
        self._asked_for: set[str] = set()
        self._listeners: list[Callable[[bool], None]] = []
        self._next_look = 0.0
        self._failed = False

    @property
    def problem(self) -> str | None:
        """What keeps it from reading them; None when nothing does."""
        return self._troubles.problem

    def __iter__(self) -> Iterator[Observation]:
        """What is known of each Lease that there is, or that was asked for."""
        return iter(list(self._views.values()))

    def of(self, name: str) -> Observation:
        """What is known of a Lease, from now on also when there is none."""
        self._asked_for.add(name)
        return self._view(name)

    def _view(self, name: str) -> Observation:
        if name not in self._views:
            self._views[name] = Observation(identity=self._identity, timing=self._timing)
        return self._views[name]

    def listen(self, listener: Callable[[bool], None]) -> None:
        """Have it called with each news from the server: with True when it was asked, and not only told.

        That who was alive has renewed a Lease is no news: times only move further away.
        """
        self._listeners.append(listener)

    async def run(self) -> None:
        """Look until cancelled."""
        self._next_look = clock.monotonic()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_looking(), name=f"read lease {self._leases}")
            group.create_task(self._keep_watching(), name=f"watch lease {self._leases}")

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
        known = {name: view.version for name, view in self._views.items()}
        try:
            found = await self._leases.read_all(timeout=self._timing.attempt_timeout)
        except KubeError as error:
            self._troubles.report(f"cannot read lease {self._leases}", error)
            self._failed = True
            return
        self._failed = False
        now = clock.monotonic()
        for lease in found:
            view, before = self._view(lease.name), known.pop(lease.name, None)
            if before is not None and lease.version is not None and lease.version < before:
                # A read shows at least what was known when it was sent, unless the past has changed.
                view.history_was_rewound()
            view.saw(lease, now=now)
        for name, version in known.items():
            missing = self._views.get(name)
            # One that the watch has shown meanwhile was written after the server answered.
            if missing is not None and missing.version == version:
                missing.saw_none()
                self._forget(name)
        self._tell(asked=True)

    async def _keep_watching(self) -> None:
        retry = self._timing.retry_period
        backoff = Backoff(base=retry, cap=retry * _LONGEST_PAUSE, jitter=0.2, rng=self._rng)
        while True:
            # Renewals come each retry period, and a holder without them is replaced before this silence ends:
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
        now, news = clock.monotonic(), True
        if gone:
            self._view(lease.name).saw_deletion(lease)
            self._forget(lease.name)
        else:
            news = self._view(lease.name).saw(lease, now=now)
        # Of a Lease that nobody renews, or that is not there, only a look tells; and of all that there are.
        if not self._failed and not any(view.doubtful for view in self._views.values()):
            self._next_look = max(self._next_look, now + self._timing.retry_period * _SILENCE)
        if news:
            self._tell(asked=False)

    def _forget(self, name: str) -> None:
        if name not in self._asked_for and self._views[name].lease is None:
            del self._views[name]

    def _tell(self, *, asked: bool) -> None:
        if asked:
            self._troubles.clear()
        for listener in self._listeners:
            listener(asked)
