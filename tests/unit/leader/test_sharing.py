"""Replicas that share ranges: each range is one's at a time, all are somebody's, and few of them move."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from manager.clock import monotonic as now
from manager.kube.errors import Fenced
from manager.kube.transport import Transport
from manager.leader.leadership import Leadership
from manager.leader.lease import LeadershipLost, LeaseTiming
from manager.leader.sharing import Sharing
from manager.metrics import Metrics
from manager.simulation.loop import freeze
from manager.watchdog import Watchdog
from tests.support.scripted_wire import Delayed, LostAfter, Reply, ScriptedWire, Stall, Step, Unreached
from tests.unit.leader.conftest import NAME, NAMESPACE
from tests.unit.leader.lease_server import PREFIX, LeaseServer

pytestmark = pytest.mark.virtual_time
COUNT = 16
EVERYTHING = f"{PREFIX}*"
DATA = "/api/v1/namespaces/default/configmaps/x"


class Replica:
    """One of a program, and its work: it takes a moment to prepare for a range, and to end."""

    def __init__(self, program: Program, identity: str, *, prepares: float = 0.2, ends: float = 0.1) -> None:
        self.program = program
        self.identity = identity
        self.prepares, self.ends = prepares, ends
        self.wire = ScriptedWire()
        self.wire.on("POST", DATA, Reply())
        program.server.serve(self.wire)
        self.transport = Transport(
            self.wire, metrics=Metrics(), rng=random.Random(identity), user_agent="test"
        )
        self.watchdog = Watchdog()
        self.sharing = Sharing(
            self.transport,
            self,
            namespace=NAMESPACE,
            name=NAME,
            count=COUNT,
            identity=identity,
            rng=random.Random(identity),
            metrics=Metrics(),
            timing=LeaseTiming(),
            watchdog=self.watchdog,
        )
        self.working: dict[int, Leadership] = {}
        self.terms: dict[int, Leadership] = {}
        self.preparing: asyncio.Task[None] | None = None
        self.run = asyncio.get_running_loop().create_task(self.sharing.run())

    def prepare(self, numbers: frozenset[int]) -> None:
        async def list_and_watch() -> None:
            await asyncio.sleep(self.prepares)
            self.sharing.prepared(numbers)

        if self.preparing is not None:
            self.preparing.cancel()
        self.preparing = asyncio.get_running_loop().create_task(list_and_watch())

    def begin(self, number: int, leadership: Leadership) -> None:
        leadership.permit()
        for other in self.program.replicas:
            # Also not for what goes on though its work was told to end.
            last = other.terms.get(number)
            assert last is None or not permits(last), f"{other.identity} and {self.identity} have {number}"
        self.working[number] = self.terms[number] = leadership
        self.program.moves.append((now(), number, self.identity))

    async def end(self, number: int) -> None:
        await asyncio.sleep(self.ends)
        del self.working[number]

    @property
    def permitted(self) -> set[int]:
        """Whatever it has begun, and may still write for."""
        return {number for number, leadership in self.working.items() if permits(leadership)}

    async def kill(self) -> None:
        self.run.cancel()
        await asyncio.wait([self.run])
        self.gone()

    async def stop(self) -> None:
        """As the manager does it: all work ends, then it leaves."""
        await asyncio.sleep(self.ends)
        self.working.clear()
        await self.sharing.release()
        self.gone()

    async def lost(self) -> str:
        with pytest.raises(LeadershipLost) as caught:
            await self.run
        self.gone()
        return str(caught.value)

    def gone(self) -> None:
        if self.preparing is not None:
            self.preparing.cancel()
        self.working.clear()
        if self in self.program.replicas:
            self.program.replicas.remove(self)

    def reach(self, step: Step | None = None) -> None:
        for method in ("GET", "PUT", "POST", "DELETE"):
            self.wire.on(method, EVERYTHING, step or self.program.server.answer)


def permits(leadership: Leadership) -> bool:
    try:
        leadership.permit()
    except Fenced:
        return False
    return True


class Program:
    """Replicas on one server."""

    def __init__(self) -> None:
        self.server = LeaseServer()
        self.replicas: list[Replica] = []
        self.moves: list[tuple[float, int, str]] = []

    async def start(self, *identities: str, **how: float) -> list[Replica]:
        started = [Replica(self, identity, **how) for identity in identities]
        self.replicas += started
        await asyncio.sleep(5)
        return started

    @property
    def shares(self) -> list[int]:
        """How many ranges each works on, once each is one's."""
        owners = Counter(number for replica in self.replicas for number in replica.permitted)
        assert owners == Counter(range(COUNT)), f"not once each: {owners}"
        return sorted(len(replica.permitted) for replica in self.replicas)

    def moved(self, *, since: float) -> list[int]:
        return [number for at, number, _ in self.moves if at >= since]

    async def bury(self) -> None:
        """See to those that have ended by themselves."""
        for replica in list(self.replicas):
            if replica.run.done():
                await replica.lost()

    async def suffer(self, rng: random.Random) -> None:
        replica = rng.choice(self.replicas)
        match rng.choice(["stop", "kill", "cut off", "mend", "dead watches"]):
            case "stop":
                replica.reach()
                await replica.stop()
            case "kill":
                await replica.kill()
            case "cut off":
                replica.reach(rng.choice([Unreached(), Stall(), LostAfter(self.server.answer)]))
            case "mend":
                replica.reach()
            case "dead watches":
                self.server.watchers.clear()

    async def unowned(self, seconds: float) -> float:
        """How long within the next seconds any one range was nobody's, at most."""
        longest, since = 0.0, dict.fromkeys(range(COUNT), now())
        for _ in range(round(seconds / 0.05)):
            await asyncio.sleep(0.05)
            for number in {number for replica in self.replicas for number in replica.permitted}:
                since[number] = now()
            longest = max(longest, *(now() - each for each in since.values()))
        return longest


@pytest.fixture
async def program() -> AsyncIterator[Program]:
    program = Program()
    yield program
    for replica in list(program.replicas):
        await replica.kill()


async def test_one_replica_has_all_ranges(program: Program):
    (a,) = await program.start("a")
    assert program.shares == [16]
    assert a.sharing.held.everything
    assert a.sharing.problem is None


async def test_ranges_are_shared_out_to_those_who_come_with_few_moves(program: Program):
    await program.start("a")
    for identity, shares, moves in (("b", [8, 8], 8), ("c", [5, 5, 6], 5), ("d", [4, 4, 4, 4], 4)):
        before = now()
        await program.start(identity)
        assert program.shares == shares
        assert len(program.moved(since=before)) == moves
    before = now()
    await asyncio.sleep(300)
    assert not program.moved(since=before), "and nothing moves without need"


async def test_who_starts_together_shares_at_once(program: Program):
    await program.start("a", "b", "c")
    assert program.shares == [5, 5, 6]


async def test_who_stops_leaves_its_ranges_and_only_they_move(program: Program):
    await program.start("a", "b")
    (c,) = await program.start("c")
    had, before = c.permitted, now()
    await c.stop()
    stopped = now()
    await asyncio.sleep(3)
    assert program.shares == [8, 8]
    assert set(program.moved(since=before)) == had
    assert max(at for at, _, _ in program.moves) - stopped < 1.0


async def test_after_a_crash_no_range_is_nobodys_for_longer_than_the_lease_duration_and_five_seconds(
    program: Program,
):
    await program.start("a", "b")
    (c,) = await program.start("c")
    await asyncio.sleep(30)
    had, before = c.permitted, now()
    await c.kill()
    assert await program.unowned(40) <= 20.0
    assert program.shares == [8, 8]
    assert set(program.moved(since=before)) == had


async def test_a_range_is_given_up_only_when_its_work_has_ended(program: Program):
    (a,) = await program.start("a", ends=20.0)
    await program.start("b")
    await asyncio.sleep(10)
    assert len(a.permitted) == 16, "it works on them to the end, and renews them"
    await asyncio.sleep(10)
    assert program.shares == [8, 8]


async def test_a_range_is_fenced_before_anybody_can_see_that_it_is_given_back(program: Program):
    (a,) = await program.start("a")
    # The server acts at once, and others see it before the answer is there.
    a.wire.on("PUT", EVERYTHING, lambda sent: Delayed(1.0, program.server.answer(sent)))
    await program.start("b")
    assert program.shares == [8, 8]


async def test_a_range_is_taken_only_when_its_objects_are_known(program: Program):
    await program.start("a")
    (b,) = await program.start("b", prepares=20.0)
    assert not b.permitted
    await asyncio.sleep(20)
    assert program.shares == [8, 8]


async def test_a_replica_that_was_frozen_works_no_more_when_it_goes_on(program: Program):
    a, b = await program.start("a", "b")
    await asyncio.sleep(30)
    freeze(20.0)
    assert not a.permitted
    assert not a.sharing.held.numbers
    with pytest.raises(Fenced, match="not renewed in time"):
        await a.transport.request("POST", DATA)
    assert "this process was held up" in await a.lost()
    assert "this process was held up" in await b.lost()


async def test_a_replica_that_is_cut_off_ends_and_the_others_take_its_ranges(program: Program):
    await program.start("a", "b")
    (c,) = await program.start("c")
    await asyncio.sleep(30)
    renewed = max(sent.at for sent in c.wire.sent("PUT"))
    c.reach(Unreached())
    assert "could not be renewed for 10s" in await c.lost()
    assert now() <= renewed + 10.0
    assert c.watchdog.due() is not None
    with pytest.raises(Fenced):
        await c.transport.request("POST", DATA)
    assert await program.unowned(20) <= 20.0
    assert program.shares == [8, 8]


async def test_the_loss_of_one_range_ends_it_all(program: Program):
    a, _ = await program.start("a", "b")
    number = min(a.permitted - {0})
    program.server.put(NAMESPACE, f"{NAME}-{number}", {"holderIdentity": "somebody"})
    assert await a.lost() == f"lease default/{NAME}-{number} is now held by somebody"


async def test_no_range_is_left_out_when_the_number_of_replicas_and_their_names_change_together(
    program: Program,
):
    for identities, shares in (("abc", [5, 5, 6]), ("defgh", [3, 3, 3, 3, 4]), ("ij", [8, 8])):
        before = list(program.replicas)
        await program.start(*identities)
        for replica in before:
            await replica.stop()
        await asyncio.sleep(5)
        assert program.shares == shares


async def test_in_a_rolling_update_no_range_is_nobodys_for_more_than_a_moment(program: Program):
    await program.start("a", "b", "c")
    before = now()

    async def roll() -> None:
        for old, new in zip(list(program.replicas), "def", strict=True):
            await program.start(new)
            await old.stop()
            await asyncio.sleep(5)

    rolling = asyncio.create_task(roll())
    assert await program.unowned(40) < 2.0
    await rolling
    assert program.shares == [5, 5, 6]
    assert len(program.moved(since=before)) <= 32, "each twice at most"


async def test_a_claim_whose_answer_was_lost_is_found_and_used(program: Program):
    (a,) = await program.start("a")
    b = Replica(program, "b")
    program.replicas.append(b)
    for path in program.server.leases:
        b.wire.on("PUT", path, LostAfter(program.server.answer), program.server.answer)
    await asyncio.sleep(20)
    assert program.shares == [8, 8]
    assert not a.run.done()


async def test_what_an_earlier_term_has_left_behind_is_permitted_nothing_by_a_later_one(program: Program):
    (a,) = await program.start("a")
    earlier = dict(a.working)
    (b,) = await program.start("b")
    given_up = b.permitted
    await b.stop()
    await asyncio.sleep(5)
    assert program.shares == [16]
    assert {number for number, leadership in earlier.items() if not permits(leadership)} == given_up


@pytest.mark.parametrize("fault", [Stall, Unreached, lambda: Reply.status(500)])
async def test_an_outage_shorter_than_the_deadline_moves_nothing(program: Program, fault: type[Stall]):
    a, b = await program.start("a", "b")
    await asyncio.sleep(30)
    before = now()
    for replica in (a, b):
        replica.reach(fault())
    await asyncio.sleep(4)
    for replica in (a, b):
        replica.reach()
    await asyncio.sleep(60)
    assert program.shares == [8, 8]
    assert not program.moved(since=before)


async def test_a_replica_that_may_not_create_leases_takes_nothing_and_says_why(program: Program):
    await program.start("a")
    b = Replica(program, "b")
    program.replicas.append(b)
    b.wire.on("POST", EVERYTHING, Reply.status(403, "Forbidden", "leases is forbidden: it cannot create"))
    await asyncio.sleep(60)
    assert program.shares == [0, 16]
    assert b.sharing.problem is not None
    assert "it cannot create" in b.sharing.problem


async def test_who_stops_before_it_has_anything_leaves_nothing_behind(program: Program):
    await program.start("a")
    b = Replica(program, "b", prepares=1000.0)
    await asyncio.sleep(1)
    await b.stop()
    await asyncio.sleep(5)
    assert program.shares == [16]
    holders = {lease["spec"]["holderIdentity"] for lease in program.server.leases.values()}
    assert holders == {"a"}


async def test_a_process_is_ended_in_time_for_the_first_of_its_leases(program: Program):
    (a,) = await program.start("a")
    await asyncio.sleep(30)
    oldest = min(holding.deadline or 0.0 for holding in a.sharing._holdings)
    assert a.watchdog.due() == pytest.approx(oldest + 4.0, abs=0.001)
    await a.stop()
    assert a.watchdog.due() is None


async def test_once_a_lease_is_lost_the_renewal_of_another_one_puts_off_nothing(program: Program):
    (a,) = await program.start("a")
    fence = a.sharing._holdings[0]._fence
    fence.close(NAME, "taken by somebody")
    lost = now()
    fence.renewed(f"{NAME}-1", lost + 10.0)
    assert a.watchdog.due() == pytest.approx(lost + 4.0, abs=0.001)


@pytest.mark.parametrize("seed", range(10))
async def test_whatever_happens_no_range_has_two_owners_and_in_the_end_each_has_one(
    program: Program, seed: int
):
    """Two owners at a time are found by `Replica.begin`."""
    rng = random.Random(seed)
    for number in range(12):
        await asyncio.sleep(rng.uniform(0, 20))
        await program.bury()
        if len(program.replicas) < 2 or (len(program.replicas) < 5 and rng.random() < 0.4):
            await program.start(f"replica-{number}", ends=rng.uniform(0, 5), prepares=rng.uniform(0, 5))
        else:
            await program.suffer(rng)
    for replica in program.replicas:
        replica.reach()
    await asyncio.sleep(30)
    await program.bury()
    await program.start("last")
    await asyncio.sleep(60)
    assert max(program.shares) - min(program.shares) <= 1
