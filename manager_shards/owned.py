"""The shards that this replica owns: their objects, and the right to work on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import _AsyncGeneratorContextManager, asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field

from manager.api import ObjectKey
from manager.cache import Record
from manager.client.child_label import label_key
from manager.election.coordinator import ControllerObjects, Leadership, Work
from manager.kube.transport import require_permit, require_permit_from_here
from manager.telemetry.logs import get_logger
from manager.telemetry.metrics import Metrics
from manager_shards.cache_filter import SLICES, ShardFilter, has_listed, index_by_uid, records_in
from manager_shards.shard_set import ShardSet

KNOWN_WITHIN = 30.0
"""Seconds for which a shard waits, at most, until its next owner has cached the objects."""

_log = get_logger("leader")


@dataclass(eq=False, slots=True)
class OwnedShard:
    """A shard that this replica owns, with its running reconciles."""

    number: int
    leadership: Leadership
    running: dict[asyncio.Timeout, bool] = field(default_factory=dict)
    """The limits of running reconciles, and whether they are cancelled at once when the shard is given up."""
    ending: bool = False
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    def enter(self) -> None:
        """Permit writes and external calls of the current context only while this replica owns the shard."""
        _current.set(self)
        require_permit_from_here(self.leadership.permit)

    def cancel(self, *, waiting: bool) -> None:
        """Cancel the running reconciles that asked for it (`at_once`); with `waiting`, cancel all."""
        now = asyncio.get_running_loop().time()
        for limit, at_once in self.running.items():
            if (at_once or waiting) and not limit.expired():
                limit.reschedule(now)


_current: ContextVar[OwnedShard | None] = ContextVar("owned_shard", default=None)


class OwnedShards:
    """The work on the objects in the shards that a `ShardCoordinator` acquires.

    `leadership` permits writes in the caller's shard or, outside of all shards, in the first one.
    """

    def __init__(self, count: int, metrics: Metrics, *, grace: float = 30.0) -> None:
        """Divide the objects into `count` shards; at a release, reconciles have `grace` seconds to end."""
        self.count = count
        self.leadership: Leadership = _LeadershipOfCaller(self)
        self._metrics = metrics
        self._controllers: list[ControllerShards] = []
        self._everything = ShardSet.of(count, range(count))
        self._grace = grace
        self._shards: dict[int, OwnedShard] = {}
        self._asked_for: dict[int, float] = {}
        """The shards to cache, with the loop time from which each counts as cached, even without a list."""
        self._changed = asyncio.Event()
        self._fetched = ShardSet.of(count, ())
        self._work: Work | None = None

    def attach(self, work: Work) -> None:
        """Set the work to start and stop; its cache then stores only the objects of the prepared shards."""
        self._work = work
        label = label_key(work.program.name)
        work.cache.make_filter = lambda of_children: ShardFilter(
            self._fetched, label=label if of_children else "", learned=self._learned
        )

    def owned_objects(self, controller: ControllerObjects) -> ControllerShards:
        """Return the objects of a controller that are in owned shards."""
        self._controllers.append(ControllerShards(self, controller, self._metrics))
        return self._controllers[-1]

    def find(self, number: int) -> OwnedShard | None:
        """Return a shard; None if this replica does not own it, or is releasing it."""
        shard = self._shards.get(number)
        return None if shard is None or shard.ending else shard

    def number_of(self, uid: str) -> int:
        """Return the number of the shard that contains the object with that UID."""
        return self._everything.number_of(uid)

    async def run(self, prepared: Callable[[frozenset[int]], None]) -> None:
        """Start the controllers, and call `prepared` with the cached shards whenever these change.

        A shard counts as cached when all its objects are listed, or after a time limit, because a kind may
        not be served. Unlisted objects are not reconciled. The first call of `prepared` follows when
        the rest of the cache has synced, or after the same time limit.
        """
        assert self._work is not None
        self._work.start_controllers()
        with suppress(TimeoutError):
            async with asyncio.timeout(KNOWN_WITHIN):
                await self._work.cache.wait_synced()
        now = asyncio.get_running_loop().time
        while True:
            self._changed.clear()
            waiting = {
                number: until
                for number, until in self._asked_for.items()
                if now() < until and not all(each.has_listed(number) for each in self._filters())
            }
            prepared(frozenset(self._asked_for.keys() - waiting.keys()))
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(waiting.values(), default=None)):
                    await self._changed.wait()

    def prepare(self, numbers: frozenset[int]) -> None:
        """Cache the objects of exactly these shards."""
        until = asyncio.get_running_loop().time() + KNOWN_WITHIN
        self._asked_for = {number: self._asked_for.get(number, until) for number in numbers}
        self._fetched = ShardSet.of(self.count, numbers)
        for each in self._filters():
            each.restrict(self._fetched)
        self._changed.set()

    def begin(self, number: int, leadership: Leadership) -> None:
        """Begin to reconcile the objects of a shard."""
        shard = self._shards[number] = OwnedShard(number, leadership)
        if self._work is not None and number == 0:
            self._work.start_leader_runnables(shard.enter)
        for controller in self._controllers:
            controller.begin(number)

    async def end(self, number: int) -> None:
        """Start no more reconciles in a shard; return when all running reconciles have ended."""
        shard = self._shards[number]
        shard.ending = True
        cut = False
        shard.cancel(waiting=False)
        if shard.running:
            try:
                async with asyncio.timeout(self._grace):
                    await shard.idle.wait()
            except TimeoutError:
                cut, count = True, sum(not at_once for at_once in shard.running.values())
                _log.warning(
                    "grace period over, reconciles cancelled", shard=number, count=count, grace=self._grace
                )
                shard.cancel(waiting=True)
                await shard.idle.wait()
        if self._work is not None:
            if number == 0:
                await self._work.stop_leader_runnables()
            if cut:
                await self._work.wait_for_threads()
        del self._shards[number]
        for controller in self._controllers:
            controller.end(number)

    def _filters(self) -> Iterator[ShardFilter]:
        assert self._work is not None
        informers = self._work.cache.informers
        return (each.filter for each in informers if isinstance(each.filter, ShardFilter))

    def _learned(self) -> None:
        self._changed.set()
        for controller in self._controllers:
            for number in self._shards:
                controller.begin(number)


class ControllerShards:
    """The objects of one controller that are in owned shards."""

    def __init__(self, shards: OwnedShards, controller: ControllerObjects, metrics: Metrics) -> None:
        self._shards = shards
        self._controller = controller
        self._objects = controller.objects
        self._whole = controller.whole
        self._begun: set[int] = set()
        self._taken, self._given_back = (
            metrics.moved_keys.labels(controller=controller.name, direction=each)
            for each in ("taken", "given_back")
        )
        if not self._whole:
            self._objects.add_index(SLICES, index_by_uid)

    @asynccontextmanager
    async def work_on(self, key: ObjectKey, *, at_once: bool = False) -> AsyncIterator[bool]:
        """Enter the object's shard for a block; yield whether this replica owns the shard.

        With `at_once`, the block is cancelled without grace when the shard is released.
        """
        shard = self._shard_of(key)
        if shard is None:
            yield False
            return
        limit, token = asyncio.timeout(None), _current.set(shard)
        try:
            async with limit:
                shard.running[limit] = at_once
                shard.idle.clear()
                with require_permit(shard.leadership.permit):
                    yield True
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            _current.reset(token)
            shard.running.pop(limit, None)
            if not shard.running:
                shard.idle.set()

    def covers(self, uid: str) -> bool:
        """Return whether the object with that UID is in the shard of the current `work_on` block."""
        shard = _current.get()
        return self._whole or (shard is not None and shard.number == self._shards.number_of(uid))

    def begin(self, number: int) -> None:
        """Enqueue the objects of an owned shard, once all of them are listed; may be called again."""
        if number in self._begun:
            return
        informers = (self._objects, *self._controller.others)
        if not all(has_listed(each, number) for each in informers):
            return
        self._begun.add(number)
        for record in self._in(number):
            self._taken.inc()
            if self._controller.counts(record):
                self._controller.enqueue(record.key)

    def end(self, number: int) -> None:
        """Call `handed_over` for the objects of a shard that this replica no longer owns."""
        self._begun.discard(number)
        for record in self._in(number):
            self._controller.handed_over(record.key)
            self._given_back.inc()

    def _in(self, number: int) -> list[Record]:
        if self._whole:
            return self._objects.list() if number == 0 else []
        return records_in(self._objects, ShardSet.of(self._shards.count, {number}))

    def _shard_of(self, key: ObjectKey) -> OwnedShard | None:
        if self._whole:
            return self._shards.find(0)
        record = self._objects.get(key)
        if record is None:
            # Each replica forgets a deleted object that it knew, which needs no permission.
            return _FORGETTING
        number = self._shards.number_of(record.uid)
        return self._shards.find(number) if number in self._begun else None


class _LeadershipOfCaller(Leadership):
    def __init__(self, shards: OwnedShards) -> None:
        super().__init__(elected=False)
        self._shards = shards

    @property
    def deadline(self) -> float:
        return self._present.deadline

    def permit(self, *, seconds: float = 0.0) -> None:
        self._present.permit(seconds=seconds)

    def held(self) -> _AsyncGeneratorContextManager[None]:
        return self._present.held()

    @property
    def _present(self) -> Leadership:
        shard = _current.get() or self._shards._shards.get(0)  # noqa: SLF001 - even while it ends
        return _FORGETTING.leadership if shard is None else shard.leadership


_FORGETTING = OwnedShard(-1, Leadership(elected=False))
