"""Replicas that divide the objects: their registry, the assignment of shards, and this replica's shards."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from hashlib import blake2b

from manager.election.coordinator import (
    ControllerObjects,
    Coordinator,
    Leadership,
    OwnedObjects,
    Work,
)
from manager.election.elector import LeaseLock, ProcessGuard, ShardCountAgreement
from manager.election.lease import ElectionConfig, Lease, Leases
from manager.election.lease_watch import BELIEVED, LastError, LeaseObservation, LeaseWatcher, pause
from manager.kube.errors import Conflict, KubeError, NotFound
from manager.telemetry.logs import get_logger
from manager.util import clock
from manager.util.loop import unless
from manager_shards.owned import KNOWN_WITHIN, OwnedShards
from manager_shards.shard_set import ShardSet

# The number of retry periods for which a replica waits for others that start with it, while no shard has an
# owner: otherwise each would list the objects of others' shards, and then drop them.
_LOOKS_AROUND = 0.5
# Seconds for which a shard is kept until its next owner knows its objects.
_KEPT_FOR = KNOWN_WITHIN

MEMBER = "member"
"""The prefix of the group's label value for a replica's own Lease; the replica's number of shards follows."""

_log = get_logger("leader")


def balance(count: int, members: Collection[str], holders: Mapping[int, str]) -> dict[int, str]:
    """Return the member that should hold each of `count` shards, given their present `holders`.

    Each member gets the same number of shards, or one more. As few shards as possible change their holder.
    The result depends only on the arguments. For a while, several replicas with different views may want
    the same shard, or no replica may want it; the Lease decides.
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
    # Members that would otherwise give up a shard get the larger shares. Apart from that, the result does not
    # depend on the members' current numbers, so it stays the same during the changes.
    for place, member in enumerate(sorted(held, key=lambda each: (len(held[each]) <= share, each))):
        size = share + (place < larger)
        numbers = held[member]
        wanted.update(dict.fromkeys(numbers[:size], member))
        free += numbers[size:]
        lacking += [member] * (size - len(numbers))
    wanted.update(zip(sorted(free), lacking, strict=True))
    return wanted


def lease_of_shard(name: str, number: int) -> str:
    """Return the name of a shard's Lease; `name` is the first shard's Lease, and the prefix of all names."""
    return f"{name}-{number}" if number else name


def number_of_shards(first: Lease, name: str) -> str | None:
    """Return the first Lease's number of shards (while it changes, the new number); None without one."""
    stated = first.annotations.get(f"{name}/shards")
    return None if stated is None else str(stated).removeprefix("to ")


class ReplicaRegistry:
    """The registry of a program's replicas, in which this replica registers itself.

    A registration gives no right to a shard. A replica that cannot register does not count itself as a
    member: it takes no shards, and gives up its own.
    """

    def __init__(self, config: ElectionConfig, group: Leases, watcher: LeaseWatcher, *, count: int) -> None:
        """Create the registry for `count` shards. The caller runs `watcher`, which watches the group."""
        self._config = config
        self._identity = config.identity
        self._timing = config.timing
        self._group = group
        self._watcher = watcher
        self._kind = f"{MEMBER}-{count}"
        self._error = LastError()
        self._leases = group.one(self._lease_of(config.identity))
        self._view = watcher.of(self._leases.name)
        self._view.saw_none()  # the identity is new
        self._known_until = -math.inf
        self._annotation = f"{config.name}/ready"
        self._ready = frozenset[int]()
        self._wake = asyncio.Event()

    def _lease_of(self, identity: str) -> str:
        digest = blake2b(identity.encode(), digest_size=8).hexdigest()
        return f"{self._config.name}-{MEMBER}-{digest}"

    @property
    def problem(self) -> str | None:
        """Return why this replica cannot register; None if it can."""
        return self._error.problem

    @property
    def members(self) -> frozenset[str]:
        """Return the identities of live replicas with our number of shards; ours only if it is registered."""
        now = clock.monotonic()
        others = {view.holder for view in self._others(self._kind) if self._gone_at(view) > now}
        return frozenset(others | {self._identity}) if now < self._known_until else frozenset(others)

    def publish_ready(self, numbers: frozenset[int]) -> None:
        """Publish the numbers of the shards that this replica waits for, and whose objects it has cached."""
        if numbers - self._ready:
            self._wake.set()
        self._ready = numbers

    def is_awaited(self, number: int) -> bool:
        """Return whether another live replica waits for this shard, and has cached its objects."""
        now = clock.monotonic()
        for view in self._others(self._kind):
            ready = "" if view.lease is None else str(view.lease.annotations.get(self._annotation, ""))
            if self._gone_at(view) > now and str(number) in ready.split(","):
                return True
        return False

    def changes_at(self) -> float:
        """Return the loop time at which the next registration expires; infinity if there is none."""
        now = clock.monotonic()
        times = [self._known_until, *map(self._gone_at, self._others(self._kind))]
        return min((each for each in times if each > now), default=math.inf)

    async def run(self, *, cleans: Callable[[], bool]) -> None:
        """Renew this replica's Lease until cancelled; while `cleans` returns True, delete expired Leases."""
        while True:
            again = clock.monotonic() + self._config.renewal_pause()
            self._wake.clear()
            await self._renew()
            if cleans():
                await self._delete_dead(until=again)
            await pause(self._wake, until=again)

    async def leave(self, *, within: float) -> None:
        """Delete this replica's Lease, after `run`, in at most `within` seconds; only log errors."""
        self._known_until = -math.inf
        try:
            async with asyncio.timeout(within):
                await self._leases.delete(timeout=self._timing.attempt_timeout)
        except NotFound:
            pass
        except (KubeError, TimeoutError) as error:
            self._error.report(f"cannot delete lease {self._leases}", error)

    async def _renew(self) -> None:
        view, timeout = self._view, self._timing.attempt_timeout
        try:
            base = await view.base(self._leases, timeout=timeout)
            base = base.labelled({self._group.label: self._kind})
            base = base.annotated({self._annotation: ",".join(map(str, sorted(self._ready)))})
            sent = await view.claim(self._leases, base, timeout=timeout)
        except KubeError as error:
            # This includes a conflict, after a renewal without an answer or a deletion by others: the next
            # renewal reads the Lease.
            self._error.report(f"cannot renew lease {self._leases}", error)
        else:
            self._known_until = sent + self._timing.renew_deadline
            self._error.clear()

    async def _delete_dead(self, *, until: float) -> None:
        """Delete dead replicas' Leases, which a new replica would count; stop at the loop time `until`."""
        for view in list(self._others(MEMBER)):
            now, lease = clock.monotonic(), view.lease
            if now >= until:
                return
            if lease is None or now < self._gone_at(view):
                continue
            leases = self._group.one(lease.name)
            try:
                await leases.delete(only=lease, timeout=min(until - now, self._timing.attempt_timeout))
            except (Conflict, NotFound):
                pass  # the replica is alive, or another one was faster
            except KubeError as error:
                self._error.report(f"cannot delete lease {leases}", error)

    def _gone_at(self, view: LeaseObservation) -> float:
        return min(view.expires_at, view.since + BELIEVED * self._timing.lease_duration)

    def _others(self, kind: str) -> Iterator[LeaseObservation]:
        for view in self._watcher:
            lease = view.lease
            if (
                lease is not None
                and f"{lease.labels.get(self._group.label)}-".startswith(f"{kind}-")
                and lease.holder not in {"", self._identity}
                # Any account that may write a Lease can add the label.
                and lease.name == self._lease_of(lease.holder)
            ):
                yield view


class ShardCoordinator(Coordinator):
    """A coordinator that acquires and releases shards, so that replicas have equally many, give or take one.

    For each shard, it gives the same guarantee as `LeaderElector`, with the same limits. It can be used once.
    """

    def __init__(self, config: ElectionConfig, shards: OwnedShards) -> None:
        super().__init__()
        self.config = config
        self.shards = shards
        self.identity = config.identity
        self._count = count = shards.count
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
        self._wake = asyncio.Event()
        self._watcher.listen(self._wake.set)
        self._wanted_count = config.metrics.shards_wanted
        self._asked_for: frozenset[int] = frozenset()
        self._prepared: frozenset[int] = frozenset()
        self._giving_up = set[int]()
        self._tasks = asyncio.TaskGroup()
        self._kept_until: dict[int, float] = {}
        """Until when a shard, by number, is kept for its next owner to cache the objects."""
        self._gave_back = asyncio.Event()
        self._looks_around = _LOOKS_AROUND * config.timing.retry_period
        self._looks_until = math.inf
        self._leaving = asyncio.Event()

    @property
    def leadership(self) -> Leadership:
        """Return the right to work on the caller's shard; outside of all shards, on the first shard."""
        return self.shards.leadership

    @property
    def owned(self) -> str:
        """Return how many shards this replica holds, as in `5 of 16`."""
        return f"{len(self.held.numbers)} of {self._count}"

    def attach(self, work: Work) -> None:
        """Set the work to start and stop; leader runnables run while this replica owns the first shard."""
        self.shards.attach(work)

    def owned_objects(self, controller: ControllerObjects) -> OwnedObjects:
        """Return the objects of a controller that are in this replica's shards."""
        return self.shards.owned_objects(controller)

    @property
    def held(self) -> ShardSet:
        """Return the shards that this replica holds, including shards that it is releasing."""
        now = clock.monotonic()
        numbers = (
            number for number, lock in enumerate(self._locks) if lock.held.is_set() and lock.deadline > now
        )
        return ShardSet.of(self._count, numbers)

    @property
    def problem(self) -> str | None:
        """Return why this replica cannot read, acquire or renew Leases; None if it can."""
        problems = (
            self._disagreement(),
            self._registry.problem,
            self._watcher.problem,
            *(each.problem for each in self._locks),
        )
        return next((problem for problem in problems if problem is not None), None)

    def _disagreement(self) -> str | None:
        """Return a message, or None if the first Lease's holder has one shard or as many as this replica."""
        view = self._views[0]
        lease = view.lease
        if lease is None or lease.holder in {"", self.identity}:
            return None
        said = number_of_shards(lease, lease.name)
        if said in {None, str(self._count), "1"} or clock.monotonic() >= view.expires_at:
            return None
        others = f"{lease.holder} has lease {self.config.namespace}/{lease.name} with --shards={said}"
        return f"{others}, and this replica has {self._count}"

    def prepared(self, numbers: Iterable[int]) -> None:
        """Record that this replica has cached the objects of exactly these shards."""
        self._prepared = frozenset(numbers)
        self._wake.set()

    def _end(self) -> None:
        for lock in self._locks:
            lock.ended("the election is over")

    def leave(self, *, within: float = 5.0) -> None:
        """Begin to leave: release each shard when a next owner is ready, and its reconciles have ended.

        The message to other replicas takes at most `within` seconds, and no longer than one request may
        take. Each release of a shard's Lease takes at most `within` seconds.
        """
        for lock in self._locks:
            lock.release_within = within
        self._leaving.set()

    async def handed_over(self) -> None:
        """Wait until all shards are released, after `leave`."""
        while self._running and any(lock.taken for lock in self._locks):
            self._gave_back.clear()
            await self._gave_back.wait()

    async def release(self) -> None:
        """Leave, and release all shards, so that other replicas take over at once. All work must have ended.

        Takes at most twice the timeout of `leave` after requests in flight have ended.
        """
        if not self._leaving.is_set():
            self.leave()
        await super().release()

    async def _take_part(self) -> None:
        async with self._tasks as group:
            working = group.create_task(self.shards.run(self.prepared), name="work on shards")
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

    async def _keep_deciding(self) -> None:
        while True:
            self._wake.clear()
            if self._watcher.has_read:
                self._decide()
            now = clock.monotonic()
            expire = (view.expires_at for view in self._views)
            ends = (each for each in (*expire, *self._kept_until.values(), self._looks_until) if each > now)
            await pause(self._wake, until=min(self._registry.changes_at(), *ends, math.inf))

    def _decide(self) -> None:
        # For our own shards, we know more than the server. For another replica's shard, the Lease's time
        # counts even if that replica lives: it may have given the shard up without the server's knowledge.
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
            target = {}  # all are starting, and some may be unknown yet
        wanted = frozenset(number for number, who in target.items() if who == self.identity)
        if not self._agreement.is_settled(self._views[0].lease):
            # There may be a leader: until the holder of the first shard writes our number, take no other
            # shard.
            wanted &= {0}
            target = {}
        self._wanted_count.set(len(wanted))
        if (needed := wanted | held) != self._asked_for:
            self._asked_for = needed
            self._prepared &= needed  # the others are dropped
            _log.debug("this replica caches these shards", shards=sorted(needed), members=sorted(members))
            self.shards.prepare(needed)
        ready = wanted & self._prepared & holders.keys() - held
        self._registry.publish_ready(ready)
        for number, lock in enumerate(self._locks):
            if number in wanted:
                self._kept_until.pop(number, None)
                if not lock.wanted.is_set() and number in self._prepared and number not in self._giving_up:
                    lock.wanted.set()
            elif lock.held.is_set():
                if number not in self._giving_up and not self._should_keep(number, target.get(number)):
                    self._giving_up.add(number)
                    self._tasks.create_task(self._give_up(number), name=f"give up shard {number}")
            elif lock.wanted.is_set():
                lock.give_up()

    def _should_keep(self, number: int, who: str | None) -> bool:
        """Return whether to keep a shard until its next owner `who` has cached its objects."""
        if who in {None, self.identity} or self._registry.is_awaited(number):
            return False
        now = clock.monotonic()
        return now < self._kept_until.setdefault(number, now + _KEPT_FOR)

    async def _give_up(self, number: int) -> None:
        await self.shards.end(number)
        self._locks[number].give_up()

    def _begin(self, number: int) -> None:
        _log.info("took a shard", shard=number, of=self._count, identity=self.identity)
        self.shards.begin(number, self._locks[number].leadership)
