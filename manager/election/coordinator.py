"""The coordinator of a manager, which decides what work its replica does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from manager.api import ObjectKey
from manager.cache import Cache, Informer, Record
from manager.election.guard import Leadership
from manager.util.program import Program


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
        self._released = asyncio.Event()
        self._leadership = Leadership()

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
        """Take part until `release` is called. Raises LeadershipLost."""
        self._start_work()
        await self._released.wait()

    def leave(self) -> None:
        """Offer all work to other replicas: the stop has begun. Standbys know all objects already."""

    async def handed_over(self) -> None:
        """Return when other replicas know the objects of all that this one has."""

    async def release(self) -> None:
        """End `run`, and let other replicas take over at once; all work must have ended."""
        self._released.set()

    def _start_work(self) -> None:
        if self._work is not None:
            self._work.start_controllers()
            self._work.start_leader_runnables()
