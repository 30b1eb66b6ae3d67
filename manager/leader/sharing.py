"""One replica's part in a program whose replicas share the work: which ranges it holds, and when."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from functools import partial
from random import Random
from typing import Protocol

from manager import clock
from manager.kube.transport import Transport
from manager.leader.holding import Fence, Holding
from manager.leader.leadership import Leadership
from manager.leader.lease import LeadershipLost, LeaseTiming
from manager.leader.lookout import Lookout, pause
from manager.leader.membership import Membership
from manager.leader.mode import Mode, lease_of_range
from manager.leader.terms import KNOWN_WITHIN
from manager.logs import get_logger
from manager.metrics import Metrics
from manager.shards.balance import balance
from manager.shards.ranges import Ranges, check_count
from manager.watchdog import Watchdog

# Retry periods for which a replica waits for others that start with it, when nobody has any range: each would
# list what is another's share otherwise, and then drop it.
_LOOKS_AROUND = 0.5
# Seconds for which a range is kept until the replica that is to have it knows its objects.
_KEPT_FOR = KNOWN_WITHIN

_log = get_logger("leader")


class Work(Protocol):
    """What a replica does with its ranges. Nothing here may raise."""

    def prepare(self, numbers: frozenset[int]) -> None:
        """Know the objects of these ranges, and no others, and call `Sharing.prepared` when that is so."""

    def begin(self, number: int, leadership: Leadership) -> None:
        """Work on the objects of a range, as long as `leadership` permits it."""

    async def end(self, number: int) -> None:
        """Work no more on the objects of a range; return when nothing that has begun goes on."""


class Sharing:
    """Takes and gives up ranges, so that each is some replica's, and all have as many. Used once.

    `run` is the part in it. On a clean stop the manager lets all work end while `run` goes on renewing, and
    calls `release` then. What is promised of each range, and what cannot be, says `LeaderElector`.
    """

    def __init__(
        self,
        transport: Transport,
        work: Work,
        *,
        namespace: str,
        name: str,
        count: int,
        identity: str,
        rng: Random,
        metrics: Metrics,
        timing: LeaseTiming,
        watchdog: Watchdog | None = None,
    ) -> None:
        """`count` is that of all ranges; raises ValueError if there cannot be so many. `name` is that of the
        first one's Lease, and begins the names of the others.
        """
        check_count(count)
        self.identity = identity
        self._count = count
        self._work = work
        self._mode = Mode(
            transport, namespace=namespace, name=name, count=count, identity=identity, timing=timing
        )
        group = self._mode.group
        self._lookout = Lookout(group, identity=identity, timing=timing, rng=rng)
        self._membership = Membership(
            group,
            self._lookout,
            name=name,
            count=count,
            identity=identity,
            timing=timing,
            rng=rng,
        )
        fence = Fence(transport, watchdog or Watchdog(), timing)
        names = [lease_of_range(name, number) for number in range(count)]
        self._views = [self._lookout.of(each) for each in names]
        self._holdings = [
            Holding(
                group.one(each),
                self._lookout,
                fence,
                identity=identity,
                timing=timing,
                rng=rng,
                metrics=metrics,
                mode=self._mode,
                first=self._views[0],
                began=partial(self._began, number),
            )
            for number, each in enumerate(names)
        ]
        self._lookout.listen(self._heard)
        self._known = False
        self._wanted: frozenset[int] = frozenset()
        self._wanted_count = metrics.ranges_wanted
        self._asked_for: frozenset[int] = frozenset()
        self._prepared: frozenset[int] = frozenset()
        self._giving_up: set[int] = set()
        self._kept_until: dict[int, float] = {}
        """The ranges that others are to have, once they know their objects."""
        self._gave_back = asyncio.Event()
        self._looks_around = _LOOKS_AROUND * timing.retry_period
        self._looks_until = math.inf
        self._ending: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()
        self._over = asyncio.Event()
        self._running = False
        self._leaving = asyncio.Event()

    @property
    def held(self) -> Ranges:
        """The ranges whose objects are ours now, those that are being given up among them."""
        now = clock.monotonic()
        numbers = (
            number
            for number, holding in enumerate(self._holdings)
            if holding.held.is_set() and (holding.deadline or now) > now
        )
        return Ranges.of(self._count, numbers)

    @property
    def wanted(self) -> Ranges:
        """The ranges that are to be ours."""
        return Ranges.of(self._count, self._wanted)

    @property
    def members(self) -> frozenset[str]:
        """The identities of all replicas, as this one sees it."""
        return self._membership.members

    @property
    def problem(self) -> str | None:
        """What keeps this replica from reading, taking or renewing Leases; None when nothing does."""
        problems = (
            self._other_mode(),
            self._membership.problem,
            self._lookout.problem,
            *(each.problem for each in self._holdings),
        )
        return next((problem for problem in problems if problem is not None), None)

    def _other_mode(self) -> str | None:
        first = self._views[0]
        other = self._mode.other(first.lease)
        if other is None or first.expired_for(clock.monotonic()) >= 0:
            return None
        lease = self._holdings[0].lease
        return f"{first.holder} has lease {lease} with --shards={other}, and this replica has {self._count}"

    def prepared(self, numbers: Iterable[int]) -> None:
        """The work's: it knows the objects of these ranges, and of no others."""
        self._prepared = frozenset(numbers)
        self._wake.set()

    async def run(self) -> None:
        """Take part until `release` is called.

        Raises LeadershipLost when a range could not be renewed in time, or has another holder. The transport
        is fenced by then, for all ranges. When cancelled, it leaves the Leases to expire.
        """
        self._running = True
        try:
            if not self._stop.is_set():
                await self._take_part()
        except BaseExceptionGroup as failed:
            lost, others = failed.split(LeadershipLost)
            if lost is None or others is not None:
                raise
            raise _first(lost) from None
        finally:
            for task in self._ending:
                task.cancel()
            for holding in self._holdings:
                holding.ended("the election is over")
            self._over.set()

    def leave(self, *, within: float = 5.0) -> None:
        """The stop has begun: be no member any more, and give each range up as soon as its work has ended.

        The others are told of either for `within` seconds, or one request's time, at most: whatever the
        server does, the process has to end.
        """
        for holding in self._holdings:
            holding.give_back_within = within
        self._leaving.set()

    async def handed_over(self) -> None:
        """After `leave`: return when each range has been given up, to who knows its objects."""
        while self._running and any(holding.taken for holding in self._holdings):
            self._gave_back.clear()
            await self._gave_back.wait()

    async def release(self) -> None:
        """Leave, and give all ranges back: others take over at once.

        To be called when all work has ended. Returns when `run` is about to, after the time of `leave` at
        most, and as long again if that was not called before. Does not raise.
        """
        if not self._leaving.is_set():
            self.leave()
        self._stop.set()
        if self._running:
            await self._over.wait()

    async def _take_part(self) -> None:
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(self._lookout.run(), name="look at the leases")
            present = group.create_task(
                self._membership.run(cleans=self._holdings[0].held.is_set), name="renew the membership"
            )
            deciding = group.create_task(self._keep_deciding(), name="decide on ranges")
            following = [
                group.create_task(self._follow(number), name=f"range {number}")
                for number in range(self._count)
            ]
            await self._leaving.wait()
            present.cancel()
            await asyncio.wait([present])
            leaving = group.create_task(
                self._membership.leave(within=self._holdings[0].give_back_within), name="end the membership"
            )
            self._wake.set()
            await self._stop.wait()
            deciding.cancel()
            await asyncio.wait([deciding])
            for holding in self._holdings:
                holding.give_up()
            await asyncio.wait([leaving])
            for task, holding in zip(following, self._holdings, strict=True):
                if holding.idle:
                    task.cancel()
            await asyncio.wait(following)
            looking.cancel()

    async def _follow(self, number: int) -> None:
        holding = self._holdings[number]
        while not self._stop.is_set():
            await holding.until_wanted()
            claim = await holding.win()
            if claim is not None:
                await holding.hold(claim)
                self._giving_up.discard(number)
                self._wake.set()
                self._gave_back.set()

    def _heard(self, asked: bool) -> None:
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
            await pause(self._wake, until=min(self._membership.changes_at(), *ends, math.inf))

    def _decide(self) -> None:
        # Of what we hold ourselves, we know more than the server has told. Of another one's, its time counts,
        # though it is there: it may have given the range up, and the server may not have been told.
        now = clock.monotonic()
        held = frozenset(number for number, holding in enumerate(self._holdings) if holding.taken)
        holders = {
            number: view.holder
            for number, view in enumerate(self._views)
            if view.holder not in {"", self.identity} and view.expires_at > now
        }
        holders |= dict.fromkeys(held, self.identity)
        members = self._membership.members
        target = balance(self._count, members, holders)
        if self.identity in members and self._looks_until == math.inf:
            self._looks_until = now + self._looks_around
        if not holders and now < self._looks_until:
            target = {}  # all start, and not all have been heard of
        self._wanted = frozenset(number for number, who in target.items() if who == self.identity)
        if not self._mode.is_settled(self._views[0].lease):
            # Somebody leads, say: until who has the first one says otherwise, nobody is to have the others.
            self._wanted &= {0}
            target = {}
        self._wanted_count.set(len(self._wanted))
        if (needed := self._wanted | held) != self._asked_for:
            self._asked_for = needed
            self._prepared &= needed  # what is left out is let go of
            _log.debug("ranges wanted", ranges=sorted(needed), members=sorted(members))
            self._work.prepare(needed)
        ready = self._wanted & self._prepared & holders.keys() - held
        self._membership.tell_ready(ready)
        for number, holding in enumerate(self._holdings):
            if number in self._wanted:
                self._kept_until.pop(number, None)
                if not holding.wanted and number in self._prepared and number not in self._giving_up:
                    holding.want()
            elif holding.held.is_set():
                if number not in self._giving_up and not self._keeps(number, target.get(number)):
                    self._giving_up.add(number)
                    task = asyncio.get_running_loop().create_task(
                        self._give_up(number), name=f"give up range {number}"
                    )
                    self._ending.add(task)
                    task.add_done_callback(self._ending.discard)
            elif holding.wanted:
                holding.give_up()

    def _keeps(self, number: int, who: str | None) -> bool:
        """Whether to go on with a range until `who` is to have it knows its objects."""
        if who in {None, self.identity} or self._membership.is_awaited(number):
            return False
        now = clock.monotonic()
        return now < self._kept_until.setdefault(number, now + _KEPT_FOR)

    async def _give_up(self, number: int) -> None:
        """Others may have it: but first all that has begun has to end."""
        await self._work.end(number)
        self._holdings[number].give_up()

    def _began(self, number: int) -> None:
        _log.info("took a range", range=number, of=self._count, identity=self.identity)
        self._work.begin(number, self._holdings[number].leadership)


def _first(failed: BaseExceptionGroup[LeadershipLost]) -> LeadershipLost:
    """Of several Leases that were lost at once, one speaks for all."""
    error: BaseException = failed
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, LeadershipLost)
    return error
