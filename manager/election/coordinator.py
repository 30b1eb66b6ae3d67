"""The coordinator of a manager: it decides what work its replica does, and permits effects while it may."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from manager.api import ObjectKey
from manager.cache import Cache, Informer, Record
from manager.kube.errors import Fenced
from manager.util.program import Program

_NOT_LEADING = "this process does not lead"
_NOT_RENEWED = "the right to act as the leader was not renewed in time"


class LeadershipLost(Exception):
    """The loss of the leadership, after which nothing is written; the text gives the reason for the log."""


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
        """Return the loop time until which this process leads for sure, unless it renews before.

        Infinity without an election, minus infinity when it does not lead. The console's overview reads it.
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


class Work(Protocol):
    """The work of one replica, as its coordinator starts and stops it."""

    program: Program

    @property
    def cache(self) -> Cache:
        """The cache of the objects to work on."""

    def start_controllers(self) -> None:
        """Start the controllers that need an election."""

    def start_leader_runnables(self, enter: Callable[[], object] = ...) -> None:
        """Start the runnables for the leader alone; `enter` is called once in the context of all of them."""

    async def stop_leader_runnables(self) -> None:
        """Cancel these runnables, and return when they and their threads have ended."""

    async def wait_for_threads(self) -> None:
        """Return when no thread works for a reconcile that was cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerObjects:
    """The objects of one controller.

    `objects` is the informer of its own kind, `others` are those of all other kinds that it reads. If
    `whole`, all objects belong to the first shard. `enqueue` is called with each object that comes to this
    replica, if `counts` says so of its record, and `handed_over` with each that another replica works on from
    then on.
    """

    name: str
    objects: Informer
    others: Sequence[Informer]
    whole: bool
    enqueue: Callable[[ObjectKey], None]
    counts: Callable[[Record], bool]
    handed_over: Callable[[ObjectKey], None]


class OwnedObjects(Protocol):
    """The objects of one controller that this replica works on, where several replicas share them."""

    def work_on(self, key: ObjectKey, /, *, at_once: bool = False) -> AbstractAsyncContextManager[bool]:
        """Enter the work on an object; gives False when it is another replica's.

        The block is cancelled when this replica has to end it: after a grace, or `at_once`.
        """

    def covers(self, uid: str) -> bool:
        """Return whether the object with that UID is in the shard that `work_on` was entered for."""


class Coordinator:
    """A replica's part in an election: it decides which work this replica does. Used once.

    The manager calls `attach`, then `run`. On a clean stop it calls `leave`, waits for `handed_over`, ends
    all work while `run` goes on, and calls `release`. This class does all work at once, without an election.
    """

    def __init__(self) -> None:
        self._work: Work | None = None
        self._leadership = Leadership()
        self._stop = asyncio.Event()
        self._running = False
        self._over = asyncio.Event()

    @property
    def leadership(self) -> Leadership:
        """The permission for effects outside of the cluster, in the context of the caller."""
        return self._leadership

    @property
    def leader(self) -> str | None:
        """The identity of the leader, as far as this replica knows; None where no single one leads."""
        return None

    @property
    def owned(self) -> str | None:
        """The number of shards that this replica holds, as in `5 of 16`; None without shards."""
        return None

    @property
    def problem(self) -> str | None:
        """Why this replica cannot take part; None when it can."""
        return None

    def attach(self, work: Work) -> None:
        """Start and stop this work from now on."""
        self._work = work

    def owned_objects(self, controller: ControllerObjects) -> OwnedObjects | None:  # noqa: ARG002 - for shards
        """Return the objects of a controller that this replica works on; None for all."""
        return None

    async def run(self) -> None:
        """Take part until `release` is called; when cancelled, leave the Leases to expire.

        Raises LeadershipLost when a Lease of this replica was not renewed in time, or has another holder. The
        transport is fenced by then: no write leaves any more, and those in flight are cut.
        """
        self._running = True
        try:
            if not self._stop.is_set():
                await self._take_part()
        except BaseExceptionGroup as failed:
            lost, others = failed.split(LeadershipLost)
            if lost is None or others is not None:
                raise
            error: BaseException = lost
            while isinstance(error, BaseExceptionGroup):  # the first of several Leases that were lost at once
                error = error.exceptions[0]
            raise error from None
        finally:
            self._end()
            self._over.set()

    def leave(self) -> None:
        """Offer all work to other replicas: the stop has begun. Standbys know all objects already."""

    async def handed_over(self) -> None:
        """Return when other replicas know the objects of all that this one has."""

    async def release(self) -> None:
        """End `run`, and let other replicas take over at once; all work must have ended."""
        self._stop.set()
        if self._running:
            await self._over.wait()

    async def _take_part(self) -> None:
        """Work until the stop."""
        self._start_work()
        await self._stop.wait()

    def _end(self) -> None:
        """Permit nothing more, however `run` ends."""

    def _start_work(self) -> None:
        if self._work is not None:
            self._work.start_controllers()
            self._work.start_leader_runnables()
