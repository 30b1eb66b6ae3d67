"""The coordinator of a manager, which decides what its replica works on and when effects are allowed."""

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
    """The leadership is lost, and nothing is written afterwards; the text is the reason for the log."""


class Leadership:
    """The right to act as the leader, for effects that the API server does not see.

    Writes to the API server are fenced automatically. A call to another service is not: after a process has
    lost its lease, another one may already be working. So put each such effect into

        async with manager.leadership.held():
            await store.add(pet)

    which cancels it when this process may no longer hold the lease. Work that cannot be cancelled, such as a
    thread, calls `permit(seconds=...)` before each step, with the longest duration of the step.

    Without an election, it always permits everything.
    """

    def __init__(self, *, elected: bool = True) -> None:
        """Create the right; with `elected=False` it permits nothing before the first `renewed`."""
        self._deadline = math.inf if elected else -math.inf
        self._ended: str | None = None if elected else _NOT_LEADING
        self._now: Callable[[], float] | None = None
        self._held: set[asyncio.Timeout] = set()

    @property
    def deadline(self) -> float:
        """Return the loop time until which this process surely leads, without a further renewal.

        The time is infinity without an election, and minus infinity if this process does not lead.
        """
        return self._deadline

    def permit(self, *, seconds: float = 0.0) -> None:
        """Raise `Fenced`, as writes do, unless this process leads now and for the next `seconds`.

        Any thread may call it. With the default durations, a leader has 8 to 10 seconds left while each
        renewal succeeds at once, and 10 or more `seconds` always fail in an election.
        """
        if self._ended is not None:
            raise Fenced(self._ended)
        if self._now is not None and self._now() >= self._deadline - seconds:
            raise Fenced(
                _NOT_RENEWED if self._now() >= self._deadline else f"it may not lead for {seconds:g} s more"
            )

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Return a context manager that cancels its block with `Fenced` when this process stops leading.

        Each renewal of the lease gives the block more time; a request that it has sent may still take effect.
        """
        self.permit()
        # Some event loops do not accept an infinite time for a timer.
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
        """Permit everything until the loop time `until`; the elector calls this."""
        self._now = asyncio.get_running_loop().time
        self._deadline = until
        self._ended = None
        self._reschedule(until)

    def ended(self, reason: str) -> None:
        """Permit nothing from now on, and cancel all blocks in `held`; the elector calls this."""
        self._deadline = -math.inf
        self._ended = self._ended or reason
        self._reschedule(asyncio.get_running_loop().time())

    def _reschedule(self, when: float) -> None:
        for limit in self._held:
            if not limit.expired():
                limit.reschedule(when)


class Work(Protocol):
    """The work of one replica: the interface by which a coordinator starts and stops this work."""

    program: Program

    @property
    def cache(self) -> Cache:
        """Return the cache of the objects to work on."""

    def start_controllers(self) -> None:
        """Start the controllers that need an election."""

    def start_leader_runnables(self, enter: Callable[[], object] = ...) -> None:
        """Call `enter` in a new context, and start the leader's runnables in copies of that context."""

    async def stop_leader_runnables(self) -> None:
        """Cancel the leader's runnables, and return when they and their threads have ended."""

    async def wait_for_threads(self) -> None:
        """Wait until no thread works for a cancelled reconcile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerObjects:
    """The objects of one controller.

    `objects` is the informer of its own kind, `others` are the informers of all other kinds that it reads. If
    `whole`, all objects belong to the first shard. `enqueue` is called with the key of each object that this
    replica newly owns, if `counts` returns True for its record. `handed_over` is called with the key of each
    object that this replica no longer owns.
    """

    name: str
    objects: Informer
    others: Sequence[Informer]
    whole: bool
    enqueue: Callable[[ObjectKey], None]
    counts: Callable[[Record], bool]
    handed_over: Callable[[ObjectKey], None]


class OwnedObjects(Protocol):
    """The objects of one controller that this replica owns, if several replicas share the objects."""

    def work_on(self, key: ObjectKey, /, *, at_once: bool = False) -> AbstractAsyncContextManager[bool]:
        """Return a context manager for the work on an object; it yields False for another replica's object.

        The block is cancelled when this replica gives up the object's shard: after a grace period, or with
        `at_once` immediately.
        """

    def covers(self, uid: str) -> bool:
        """Return whether the object with that UID is in the shard of the current `work_on` block."""


class Coordinator:
    """The component that decides which work this replica does. It can be used once.

    The manager calls `attach`, then `run`. On a clean stop it calls `leave`, waits for `handed_over`, ends
    all work while `run` continues, and calls `release`. With this base class, the replica does all work.
    """

    def __init__(self) -> None:
        self._work: Work | None = None
        self._leadership = Leadership()
        self._stop = asyncio.Event()
        self._running = False
        self._over = asyncio.Event()

    @property
    def leadership(self) -> Leadership:
        """Return the permission of the caller's context for effects outside of the cluster."""
        return self._leadership

    @property
    def leader(self) -> str | None:
        """Return the identity of the known leader, "" without one; None without an election of one leader."""
        return None

    @property
    def owned(self) -> str | None:
        """Return the number of this replica's shards, as in `5 of 16`; None without shards."""
        return None

    @property
    def problem(self) -> str | None:
        """Return the reason why this replica cannot take part in the election; None if it can."""
        return None

    def attach(self, work: Work) -> None:
        """Set the work that this coordinator starts and stops."""
        self._work = work

    def owned_objects(self, controller: ControllerObjects) -> OwnedObjects | None:  # noqa: ARG002 - for shards
        """Return the objects of a controller that this replica owns; None for all."""
        return None

    async def run(self) -> None:
        """Take part in the election until `release`; a cancellation leaves the Leases to expire.

        Raises LeadershipLost if a Lease of this replica was not renewed in time, or has another holder. The
        transport is fenced then: it sends no more writes, and drops those in flight.
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
        """Begin to give up shards, because the manager stops; a replica without shards does nothing."""

    async def handed_over(self) -> None:
        """Wait until this replica has given up its shards; return at once without shards."""

    async def release(self) -> None:
        """End `run`, and let other replicas take over at once; all work must have ended."""
        self._stop.set()
        if self._running:
            await self._over.wait()

    async def _take_part(self) -> None:
        self._start_work()
        await self._stop.wait()

    def _end(self) -> None:
        """Permit no more effects; `run` calls this at its end, also after an error."""

    def _start_work(self) -> None:
        if self._work is not None:
            self._work.start_controllers()
            self._work.start_leader_runnables()
