"""The Leases as the server last showed them: the holder of each, and the duration of its silence."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import aclosing

from manager.election.lease import ElectionConfig, Lease, Leases, LeaseTiming
from manager.kube.errors import KubeError
from manager.telemetry.logs import get_logger
from manager.util import clock
from manager.util.backoff import Backoff

BELIEVED = 4.0
"""The maximum number of our lease durations until a deleted lease, or a replica's registration, counts as
expired: the lease may name a longer duration, but must not exclude others for that long."""

TIMER_ERROR = 1e-6
"""Seconds by which a timer may fire early because of rounding; that still counts as in time."""

# Read the lease a little before a retry period has passed, so that replicas do not read at the same time, and
# find a released lease within the period even without a watch.
_LOOK = (0.75, 1.0)
# A watch that reports each renewal makes reads unnecessary; only its silence causes a read.
_SILENCE = 1.5
# Lease durations without an event after which a watch counts as dead.
_DEAD_STREAM = 1.5
# The maximum number of retry periods between attempts to watch, while no watch shows an event.
_LONGEST_PAUSE = 30

_log = get_logger("leader")


async def pause(wake: asyncio.Event, *, until: float) -> None:
    """Wait until the event is set, but not after the loop time `until`, which may be infinity."""
    try:
        # Some event loops do not accept an infinite time for a timer.
        async with asyncio.timeout_at(None if until == math.inf else until):
            await wake.wait()
    except TimeoutError:
        pass


class LastError:
    """The last failure of a request for a lease; each new one is logged once, however often it repeats."""

    def __init__(self) -> None:
        self.problem: str | None = None
        self._kind: tuple[str, type[Exception]] | None = None

    def report(self, failed: str, error: Exception) -> None:
        """Record the text `failed`, such as `cannot read lease a/b`, and its `error`."""
        self.problem = f"{failed}: {str(error) or type(error).__name__}"
        if self._kind != (failed, type(error)):
            self._kind = (failed, type(error))
            _log.warning("a request for the lease failed", error=self.problem)

    def clear(self) -> None:
        """Record that a request succeeded."""
        if self.problem is not None:
            _log.info("requests for the lease succeed again", was=self.problem)
        self.problem = self._kind = None


class LeaseObservation:
    """The lease as last seen; its content has been unchanged since the local time `since`.

    A holder counts as alive until its record has been unchanged for the lease duration, by our own monotonic
    clock: times in the record come from another clock. A new label does not count as a change of the record.
    If a process on the same host has written the record with our own clock, the time in the record is used.

    `newest` is the newest version seen, None if versions cannot be ordered. While `doubtful`, because a write
    had no answer or an event was late, the lease must be read again before the next claim.
    """

    def __init__(
        self, *, identity: str, timing: LeaseTiming, changed: Callable[[], None] = lambda: None
    ) -> None:
        """Create an observation; `changed` is called for all changes except renewals by a live holder."""
        self._identity = identity
        self._timing = timing
        self._changed = changed
        self._lease: Lease | None = None
        self._gone = False
        self.newest: int | None = None
        self.since = -math.inf
        self.doubtful = True

    @property
    def lease(self) -> Lease | None:
        """Return the lease on which a claim is based; None if the server has none."""
        return None if self._gone else self._lease

    @property
    def holder(self) -> str:
        """Return the identity of the last seen holder; empty if there is none."""
        return self._lease.holder if self._lease is not None else ""

    def saw(self, lease: Lease, *, now: float) -> None:
        """Record a lease that was read, watched or written.

        A version older than the known one is ignored, and the lease must be read again: either the version
        was late, or the history was rewound.
        """
        if self._is_stale(lease):
            self.doubtful = True
            return
        known = self._lease
        silent = now >= min(self.expires_at, self.since + self._timing.lease_duration)
        renewed = known is not None and lease.renews(known) and not (silent or self._gone or self.doubtful)
        if known is None or (lease.uid, lease.record) != (known.uid, known.record):
            sent = lease.sent_at(self._timing.clock)
            self.since = now if sent is None else min(sent, now)
        self._lease, self.newest = lease, lease.version
        self._gone = self.doubtful = False
        if not renewed:
            self._changed()

    def saw_none(self, last: Lease | None = None) -> None:
        """Record that the server has no such lease, or has deleted it in the state `last`.

        A deletion is no release: the holder may still be working, and will create the lease again.
        """
        self.doubtful = last is not None and self._is_stale(last)
        self._gone = self._gone or not self.doubtful
        self._changed()

    async def base(self, leases: Leases, *, timeout: float) -> Lease:
        """Return the lease that the next write changes; first read it if the known state is doubtful or cut.

        For a deleted lease, return its last state, without a version.
        """
        self.doubtful = self.doubtful or (self._lease is not None and self._lease.is_outline)
        if self.doubtful:
            await self.read(leases, timeout=timeout)
        if self._lease is None:
            return Lease.new(namespace=leases.namespace, name=leases.name)
        return self._lease.recreated() if self._gone else self._lease

    async def read(self, leases: Leases, *, timeout: float) -> None:
        """Read the lease now."""
        before = self.newest
        self.was_read(await leases.read(timeout=timeout), before=before)

    def was_read(self, lease: Lease | None, *, before: int | None) -> None:
        """Record the answer to a read that was sent when `before` was the newest version."""
        if lease is None:
            if self.newest == before:  # otherwise the watch has shown a version newer than the answer
                self.saw_none()
            return
        if before is not None and lease.version is not None and lease.version < before:
            # A read shows at least the state known when it was sent. So the history was rewound, for example
            # by a restore of etcd from a backup, and versions restart from an older one.
            self.newest = None
        self.saw(lease, now=clock.monotonic())

    async def claim(self, leases: Leases, lease: Lease, *, timeout: float) -> float:
        """Write the lease with this replica as holder; return the loop time of sending the request."""
        timing, sent = self._timing, clock.monotonic()
        wanted = lease.claimed(identity=self._identity, seconds=timing.lease_seconds, now=clock.now())
        await self.write(leases, wanted.sent(timing.clock, sent), timeout=timeout)
        return sent

    async def write(self, leases: Leases, lease: Lease, *, timeout: float) -> None:
        """Write the lease; if the write fails, its effect is unknown and the observation is `doubtful`."""
        sent = clock.monotonic()
        try:
            stored = await leases.write(lease, timeout=timeout)
        except BaseException:
            self.doubtful = True  # not before the request: the watch's event of it would be a change
            raise
        self.saw(stored, now=sent)

    @property
    def expires_at(self) -> float:
        """Return the local time at which the lease expires, unless it changes."""
        claimed = self._lease.duration if self._lease is not None else None
        # A holder that works creates it again; one that claimed it for years and is gone does not.
        longest = BELIEVED * self._timing.lease_duration if self._gone else math.inf
        return self.since + min(claimed or self._timing.lease_duration, longest)

    def claimable(self, now: float) -> bool:
        """Return whether to try to take the lease now."""
        return now >= self.claimable_at() - TIMER_ERROR

    def claimable_at(self) -> float:
        """Return the local time when the lease can be taken unless it changes; infinity while doubtful."""
        if self.doubtful:
            return math.inf
        return -math.inf if self.holder in {"", self._identity} else self.expires_at

    def _is_stale(self, lease: Lease) -> bool:
        return self.newest is not None and lease.version is not None and lease.version < self.newest


class LeaseWatcher:
    """An observer of several Leases, while it runs.

    One task watches them. Another task reads them about once each retry period, while the watch is silent for
    longer than renewals allow, or a state is doubtful. So a dead watch delays no read, and a read that hangs
    does not delay the watch.
    """

    def __init__(self, config: ElectionConfig, leases: Leases) -> None:
        self._config = config
        self._leases = leases
        self._timing = config.timing
        self._error = LastError()
        # Without the watch, a takeover is only later, so the watch's errors are only logged.
        self._watch_error = LastError()
        self._views: dict[str, LeaseObservation] = {}
        self._asked_for: set[str] = set()
        self._listeners: list[Callable[[], None]] = []
        self._next_read = 0.0
        self.has_read = False
        """Whether it has read all Leases once."""

    @property
    def problem(self) -> str | None:
        """Return why the watcher cannot read the Leases; None if it can."""
        return self._error.problem

    def __iter__(self) -> Iterator[LeaseObservation]:
        return iter(list(self._views.values()))

    def of(self, name: str) -> LeaseObservation:
        """Return the observation of a Lease, and keep it even while the Lease does not exist."""
        self._asked_for.add(name)
        return self._view(name)

    def _view(self, name: str) -> LeaseObservation:
        if name not in self._views:
            self._views[name] = LeaseObservation(
                identity=self._config.identity, timing=self._timing, changed=self._notify
            )
        return self._views[name]

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each read of all Leases, and after each change (see `LeaseObservation`)."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Watch and read the Leases until cancelled."""
        self._next_read = clock.monotonic()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._poll(), name=f"read lease {self._leases}")
            group.create_task(self._watch(), name=f"watch lease {self._leases}")

    async def _poll(self) -> None:
        while True:
            due = self._next_read
            await asyncio.sleep(due - clock.monotonic())
            if self._next_read > due:
                continue  # the watch has postponed it meanwhile
            await self.read()
            again = clock.monotonic() + self._timing.retry_period * self._config.rng.uniform(*_LOOK)
            self._next_read = max(self._next_read, again)

    async def read(self) -> bool:
        """Read the Leases now; return False if that failed, with the reason in `problem`."""
        known = {name: view.newest for name, view in self._views.items()}
        try:
            found = await self._leases.read_all(timeout=self._timing.attempt_timeout)
        except KubeError as error:
            self._error.report(f"cannot read lease {self._leases}", error)
            return False
        for lease in found:
            self._view(lease.name).was_read(lease, before=known.pop(lease.name, None))
        for name, version in known.items():
            if (missing := self._views.get(name)) is not None:
                missing.was_read(None, before=version)
                self._forget(name)
        self._error.clear()
        self.has_read = True
        self._notify()
        return True

    async def _watch(self) -> None:
        retry = self._timing.retry_period
        backoff = Backoff(base=retry, cap=retry * _LONGEST_PAUSE, jitter=0.2, rng=self._config.rng)
        while True:
            # Renewals arrive each retry period, and a holder without renewals is replaced before such a
            # silence: so the stream is dead.
            silence = self._timing.lease_duration * _DEAD_STREAM
            changes = self._leases.changes(rng=self._config.rng, silence=silence)
            try:
                async with aclosing(changes):
                    async for lease, gone in changes:
                        backoff.reset()
                        self._watch_error.clear()
                        self._observe(lease, gone=gone)
            except KubeError as error:
                self._watch_error.report(f"cannot watch lease {self._leases}", error)
            await asyncio.sleep(backoff.next())

    def _observe(self, lease: Lease, *, gone: bool) -> None:
        view, now = self._view(lease.name), clock.monotonic()
        if gone:
            view.saw_none(lease)
            self._forget(lease.name)
        else:
            view.saw(lease, now=now)
        # Only a read shows a Lease without renewals, one that does not exist, and unknown ones.
        if self._error.problem is None and not any(view.doubtful for view in self._views.values()):
            self._next_read = max(self._next_read, now + self._timing.retry_period * _SILENCE)

    def _forget(self, name: str) -> None:
        if name not in self._asked_for and self._views[name].lease is None:
            del self._views[name]

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()
