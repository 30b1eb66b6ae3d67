"""The coordinator of replicas that share the work: which shards this one holds, and when."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterable, Mapping
from functools import partial

from manager.election.coordinator import (
    ControllerObjects,
    Coordinator,
    Leadership,
    LeadershipLost,
    OwnedObjects,
    Work,
)
from manager.election.elector import LeaseLock, ProcessGuard, ShardCountAgreement, lease_of_shard
from manager.election.lease import ElectionConfig
from manager.election.lease_watch import LeaseWatcher, pause
from manager.shards.owned import KNOWN_WITHIN, OwnedShards
from manager.shards.registry import ReplicaRegistry
from manager.shards.shard_set import ShardSet, check_count
from manager.telemetry.logs import get_logger
from manager.util import clock
from manager.util.loop import unless

# Retry periods for which a replica waits for others that start with it, while no shard has an owner: each
# would list the objects of others' shards, and then drop them.
_LOOKS_AROUND = 0.5
# Seconds for which a shard is kept until its next owner knows its objects.
_KEPT_FOR = KNOWN_WITHIN

_log = get_logger("leader")


def balance(count: int, members: Collection[str], holders: Mapping[int, str]) -> dict[int, str]:
    """Return the member that should hold each of `count` shards, given the present `holders` of some of them.

    All members get equally many, or one more, and as few shards as possible change hands. The answer depends
    on the arguments alone. Replicas that do not see the same may both want a shard for a while, or neither:
    the Lease decides.
    """
    if not members:
        return {}
    held: dict[str, list[int]] = {member: [] for member in members}
    free = []
    for number in range(count):
        holder = holders.get(number)
        if holder in held:
            held[holder].append(number)
        else:
            free.append(number)
    share, larger = divmod(count, len(held))
    wanted = {}
    lacking = []
    # The larger shares are for members that would give up less with them. The number that a member has makes
    # no other difference: so the answer stays the same while it comes about.
    for place, member in enumerate(sorted(held, key=lambda each: (len(held[each]) <= share, each))):
        size = share + (place < larger)
        numbers = held[member]
        wanted.update(dict.fromkeys(numbers[:size], member))
        free += numbers[size:]
        lacking += [member] * (size - len(numbers))
    wanted.update(zip(sorted(free), lacking, strict=True))
    return wanted


class ShardCoordinator(Coordinator):
    """Coordinator that takes and gives up shards, for one owner each and equal numbers. Used once.

    The promise for each shard, and its limits, are those of `LeaderElector`.
    """

    def __init__(self, config: ElectionConfig, work: OwnedShards, *, count: int) -> None:
        """Create a coordinator; raise ValueError unless the work can be divided into `count` shards."""
        super().__init__()
        check_count(count)
        self.identity = config.identity
        self._count = count
        self._shards = work
        self._agreement = ShardCountAgreement(config, count=count)
        group = self._agreement.group
        self._watcher = LeaseWatcher(config, group)
        self._registry = ReplicaRegistry(config, group, self._watcher, count=count)
        guard = ProcessGuard(config)
        names = [lease_of_shard(config.name, number) for number in range(count)]
        self._views = [self._watcher.of(each) for each in names]
        self._locks = [
            LeaseLock(
                config, group.one(name), self._watcher, guard, self._agreement, partial(self._begin, number)
            )
            for number, name in enumerate(names)
        ]
        self._watcher.listen(self._observed)
        self._known = False
        self._wanted: frozenset[int] = frozenset()
        self._wanted_count = config.metrics.shards_wanted
        self._asked_for: frozenset[int] = frozenset()
        self._prepared: frozenset[int] = frozenset()
        self._giving_up: set[int] = set()
        self._kept_until: dict[int, float] = {}
        """The shards that wait for their next owners to know the objects."""
        self._gave_back = asyncio.Event()
        self._looks_around = _LOOKS_AROUND * config.timing.retry_period
        self._looks_until = math.inf
        self._ending: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._leaving = asyncio.Event()

    @property
    def leadership(self) -> Leadership:
        """Return the permission of the caller's shard, or of the first shard."""
        return self._shards.leadership

    @property
    def owned(self) -> str:
        """Return the number of this replica's shards, as in `5 of 16`."""
        return f"{len(self.held.numbers)} of {self._count}"

    def attach(self, work: Work) -> None:
        """Start the controllers of `work` at once, and its runnables for the leader with the first shard."""
        self._shards.attach(work)

    def owned_objects(self, controller: ControllerObjects) -> OwnedObjects:
        """Return the objects of a controller that are in this replica's shards."""
        return self._shards.owned_objects(controller)

    @property
    def held(self) -> ShardSet:
        """Return the shards whose objects this replica holds, including those being given up."""
        now = clock.monotonic()
        numbers = (
            number for number, lock in enumerate(self._locks) if lock.held.is_set() and lock.deadline > now
        )
        return ShardSet.of(self._count, numbers)

    @property
    def problem(self) -> str | None:
        """Return why this replica cannot read, take or renew Leases; None when it can."""
        problems = (
            self._disagreement(),
            self._registry.problem,
            self._watcher.problem,
            *(each.problem for each in self._locks),
        )
        return next((problem for problem in problems if problem is not None), None)

    def _disagreement(self) -> str | None:
        first = self._views[0]
        other = self._agreement.other(first.lease)
        if other is None or clock.monotonic() >= first.expires_at:
            return None
        lease = self._locks[0]
        return f"{first.holder} has lease {lease} with --shards={other}, and this replica has {self._count}"

    def prepared(self, numbers: Iterable[int]) -> None:
        """Note that the work knows the objects of these shards, and of no others."""
        self._prepared = frozenset(numbers)
        self._wake.set()

    async def run(self) -> None:
        """See `Coordinator.run`."""
        try:
            await super().run()
        except BaseExceptionGroup as failed:
            lost, others = failed.split(LeadershipLost)
            if lost is None or others is not None:
                raise
            raise _first(lost) from None

    def _end(self) -> None:
        for task in self._ending:
            task.cancel()
        for lock in self._locks:
            lock.ended("the election is over")

    def leave(self, *, within: float = 5.0) -> None:
        """Be no member any more, and give each shard up as soon as its work has ended: the stop has begun.

        The others are told of either for `within` seconds, or one request's time, at most.
        """
        for lock in self._locks:
            lock.release_within = within
        self._leaving.set()

    async def handed_over(self) -> None:
        """Return when each shard has been given up, after `leave`."""
        while self._running and any(lock.taken for lock in self._locks):
            self._gave_back.clear()
            await self._gave_back.wait()

    async def release(self) -> None:
        """Leave, and give all shards back: others take over at once. All work has to be over.

        Returns when `run` is about to, after twice the time of `leave` at most.
        """
        if not self._leaving.is_set():
            self.leave()
        await super().release()

    async def _take_part(self) -> None:
        async with asyncio.TaskGroup() as group:
            working = group.create_task(self._shards.run(self.prepared), name="work on shards")
            watching = group.create_task(self._watcher.run(), name="watch the leases")
            registered = group.create_task(
                self._registry.run(cleans=self._locks[0].held.is_set), name="renew the registration"
            )
            deciding = group.create_task(self._keep_deciding(), name="decide on shards")
            following = [
                group.create_task(self._follow(number), name=f"shard {number}")
                for number in range(self._count)
            ]
            await self._leaving.wait()
            registered.cancel()
            await asyncio.wait([registered])
            leaving = group.create_task(
                self._registry.leave(within=self._locks[0].release_within), name="end the registration"
            )
            self._wake.set()
            await self._stop.wait()
            deciding.cancel()
            await asyncio.wait([deciding])
            for lock in self._locks:
                lock.give_up()
            await asyncio.wait([leaving])
            await asyncio.wait(following)
            watching.cancel()
            working.cancel()

    async def _follow(self, number: int) -> None:
        lock = self._locks[number]
        while await unless(self._stop, lock.wanted.wait()) and not self._stop.is_set():
            if await lock.acquire():
                await lock.hold()
                self._giving_up.discard(number)
                self._wake.set()
                self._gave_back.set()

    def _observed(self, asked: bool) -> None:
        self._known = self._known or asked
        self._wake.set()

    async def _keep_deciding(self) -> None:
        while True:
            self._wake.clear()
            if self._known:
                self._decide()
            now = clock.monotonic()
            expire = (view.expires_at for view in self._views)
            ends = (each for each in (*expire, *self._kept_until.values(), self._looks_until) if each > now)
            await pause(self._wake, until=min(self._registry.changes_at(), *ends, math.inf))

    def _decide(self) -> None:
        # We know more than the server about the shards that we hold. For another replica's shard its time
        # counts, though that replica lives: it may have given the shard up, and the server does not know.
        now = clock.monotonic()
        held = frozenset(number for number, lock in enumerate(self._locks) if lock.taken)
        holders = {
            number: view.holder
            for number, view in enumerate(self._views)
            if view.holder not in {"", self.identity} and view.expires_at > now
        }
        holders |= dict.fromkeys(held, self.identity)
        members = self._registry.members
        target = balance(self._count, members, holders)
        if self.identity in members and self._looks_until == math.inf:
            self._looks_until = now + self._looks_around
        if not holders and now < self._looks_until:
            target = {}  # all start, and not all have been heard of
        self._wanted = frozenset(number for number, who in target.items() if who == self.identity)
        if not self._agreement.is_settled(self._views[0].lease):
            # There may be a leader: until the holder of the first shard states our number, leave the others.
            self._wanted &= {0}
            target = {}
        self._wanted_count.set(len(self._wanted))
        if (needed := self._wanted | held) != self._asked_for:
            self._asked_for = needed
            self._prepared &= needed  # the others are dropped
            _log.debug("shards wanted", shards=sorted(needed), members=sorted(members))
            self._shards.prepare(needed)
        ready = self._wanted & self._prepared & holders.keys() - held
        self._registry.publish_ready(ready)
        for number, lock in enumerate(self._locks):
            if number in self._wanted:
                self._kept_until.pop(number, None)
                if not lock.wanted.is_set() and number in self._prepared and number not in self._giving_up:
                    lock.wanted.set()
            elif lock.held.is_set():
                if number not in self._giving_up and not self._should_keep(number, target.get(number)):
                    self._giving_up.add(number)
                    task = asyncio.get_running_loop().create_task(
                        self._give_up(number), name=f"give up shard {number}"
                    )
                    self._ending.add(task)
                    task.add_done_callback(self._ending.discard)
            elif lock.wanted.is_set():
                lock.give_up()

    def _should_keep(self, number: int, who: str | None) -> bool:
        """Return whether to work on a shard until its next owner, `who`, knows its objects."""
        if who in {None, self.identity} or self._registry.is_awaited(number):
            return False
        now = clock.monotonic()
        return now < self._kept_until.setdefault(number, now + _KEPT_FOR)

    async def _give_up(self, number: int) -> None:
        await self._shards.end(number)
        self._locks[number].give_up()

    def _begin(self, number: int) -> None:
        _log.info("took a shard", shard=number, of=self._count, identity=self.identity)
        self._shards.begin(number, self._locks[number].leadership)


def _first(failed: BaseExceptionGroup[LeadershipLost]) -> LeadershipLost:
    """Return the first error of several Leases that were lost at once."""
    error: BaseException = failed
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, LeadershipLost)
    return error
