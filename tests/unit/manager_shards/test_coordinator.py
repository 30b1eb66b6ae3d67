"""Shard coordinator: balance, acquisition and release of shards."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.election import lease
from manager.kube.errors import Fenced
from manager.util.clock import monotonic as now
from manager_shards.coordinator import balance
from manager_tools.simulation.loop import freeze
from tests.support.scripted_wire import LostAfter, Reply, Sent, Stall, Unreached
from tests.unit.election.conftest import DATA, EVERYTHING, LEASES, NAME
from tests.unit.election.program import COUNT, Program, Replica, permits, program

__all__ = ["program"]

pytestmark = pytest.mark.virtual_time

COUNTS = st.sampled_from([2**power for power in range(9)])
HOW_FAR = st.sampled_from(("not yet", "released", "taken"))
MEMBERS = st.sets(st.text("abcdefghij", min_size=1, max_size=3), min_size=1, max_size=12)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[int, set[str], dict[int, str]]:
    """Draw a shard count, the live replicas, and the owner of each shard; an owner may have stopped."""
    count, members = draw(COUNTS), draw(MEMBERS)
    anybody = st.sampled_from([*sorted(members), "gone", "gone too"])
    return count, members, draw(st.dictionaries(st.integers(0, count - 1), anybody))


@given(scenes(), st.randoms(use_true_random=False))
def test_shard_balance_assigns_equal_shard_counts_with_the_fewest_moves(
    scene: tuple[int, set[str], dict[int, str]], rng: random.Random
):
    count, members, holders = scene
    wanted = balance(count, members, holders)
    assert sorted(wanted) == list(range(count))
    shares = [list(wanted.values()).count(member) for member in members]
    assert sum(shares) == count
    assert max(shares) - min(shares) <= 1
    sizes = sorted(list(holders.values()).count(member) for member in members)
    share, larger = divmod(count, len(members))
    # The minimum number of moves: replicas with most shards keep the larger shares.
    allowed = sorted([share + 1] * larger + [share] * (len(members) - larger))
    fewest = sum(max(0, has - may) for has, may in zip(sizes, allowed, strict=True))
    given_up = [number for number, who in holders.items() if who in members and wanted[number] != who]
    assert len(given_up) == fewest
    shuffled, entries = sorted(members), list(holders.items())
    rng.shuffle(shuffled)
    rng.shuffle(entries)
    assert balance(count, shuffled, dict(entries)) == wanted


@given(scenes(), st.data())
def test_shard_balance_does_not_change_while_shards_move_to_their_assigned_replicas(
    scene: tuple[int, set[str], dict[int, str]], data: st.DataObject
):
    """If the balance changed, starting replicas would list new shards again and again and own none."""
    count, members, holders = scene
    wanted = balance(count, members, holders)
    for number, who in wanted.items():
        match data.draw(HOW_FAR):
            case "released" if holders.get(number) != who:
                holders.pop(number, None)
            case "taken":
                holders[number] = who
    assert balance(count, members, holders) == wanted


async def test_shard_balance_moves_the_fewest_possible_shards_when_a_replica_joins(program: Program):
    (a,) = await program.start("a")
    assert program.shares == [8]
    assert a.coordinator.held.everything
    assert a.coordinator.problem is None
    for identity, shares, moves in (("b", [4, 4], 4), ("c", [2, 3, 3], 2), ("d", [2, 2, 2, 2], 2)):
        before = now()
        await program.start(identity)
        assert program.shares == shares
        assert len(program.moved(since=before)) == moves
    before = now()
    await asyncio.sleep(30)
    assert not program.moved(since=before), "no shard moves without need"


@pytest.mark.parametrize("after_others", [False, True])
async def test_replicas_that_start_together_list_only_their_own_shards(program: Program, after_others: bool):
    if after_others:
        (old,) = await program.start("old")
        await old.stop()
    replicas = await program.start("a", "b", "c", prepares=3.0)
    await asyncio.sleep(5)
    assert program.shares == [2, 3, 3]
    assert max(len(numbers) for each in replicas for numbers in each.asked_for) <= 3


async def test_stopping_replica_releases_only_shards_without_stuck_reconciles(program: Program):
    a, b, c = await program.start("a", "b", "c")
    a.stuck = min(a.permitted)
    a.coordinator.leave()
    await b.stop()
    await asyncio.sleep(5)
    assert a.permitted == {a.stuck}, "a reconcile of this shard has not ended"
    assert a.permitted | c.permitted == set(range(COUNT))


@pytest.mark.parametrize("answers_after", [0.0, 0.05])
async def test_coordinator_rarely_rebalances_while_each_replica_renews_its_lease(
    program: Program, monkeypatch: pytest.MonkeyPatch, answers_after: float
):
    a, b = await program.start("a", "b")
    for each in (a, b):  # if the response is late, the watch shows a renewal first
        each.wire.on("PUT", EVERYTHING, program.server.late(answers_after))
    decisions = list[float]()
    decide = a.coordinator._decide
    monkeypatch.setattr(a.coordinator, "_decide", lambda: (decisions.append(now()), decide()))
    await asyncio.sleep(60)
    assert 0 < len(decisions) <= 12
    assert program.shares == [4, 4]


async def test_shard_moves_only_after_the_next_owner_has_listed_its_objects(program: Program):
    (a,) = await program.start("a")
    assert a.measured("shards_wanted") == COUNT
    assert a.measured("lease_handovers_total", direction="taken") == COUNT
    assert a.measured("lease_unowned_seconds_count") == 0, "the shards had no owner before"
    b = program.begin("b", prepares=8.0)
    await asyncio.sleep(7)
    assert (a.permitted, b.permitted) == (set(range(COUNT)), set())
    assert [each.measured("shards_wanted") for each in (a, b)] == [4, 4]
    assert a.measured("lease_handovers_total", direction="given_back") == 0
    await asyncio.sleep(3)
    assert program.shares == [4, 4]
    for began, number, who in program.moves:
        if who == "b":
            assert began - a.ended[number] < 0.5
    assert a.measured("lease_handovers_total", direction="given_back") == 4
    assert b.measured("lease_handovers_total", direction="taken") == 4
    assert b.measured("lease_unowned_seconds_count") == 4
    assert b.measured("lease_unowned_seconds_sum") < 4 * 0.5


async def test_stopping_replica_works_until_the_next_owners_have_listed_its_objects(program: Program):
    a, _, _ = await program.start("a", "b", "c", prepares=4.0)
    await asyncio.sleep(10)
    assert program.shares == [2, 3, 3]
    had = a.permitted
    a.coordinator.leave()
    await asyncio.sleep(3)
    assert a.permitted == had
    await a.coordinator.handed_over()
    await asyncio.sleep(1)
    assert not a.permitted
    assert program.shares[-2:] == [4, 4]
    assert (
        max(began - a.ended[number] for began, number, who in program.moves if number in had and who != "a")
        < 0.5
    )


async def test_replica_releases_shards_even_if_the_next_owner_never_finishes_its_list(program: Program):
    (a,) = await program.start("a")
    program.begin("b", prepares=1000.0)
    await asyncio.sleep(40)
    assert len(a.permitted) == COUNT // 2


@pytest.mark.parametrize("refused", [False, True])
async def test_stop_of_a_lone_replica_takes_at_most_1_s_or_6_s_if_the_server_rejects_its_token(
    program: Program, refused: bool
):
    (a,) = await program.start("a")
    if refused:
        a.reach(Reply.status(401, "Unauthorized", "the token is no good any more"))
    a.coordinator.leave()
    began = now()
    if not refused:
        await a.coordinator.handed_over()
    await a.stop()
    assert now() - began < (6.0 if refused else 1.0), "the timeout of the release, and a pause"


async def test_shards_of_a_crashed_replica_have_a_new_owner_within_20_seconds(program: Program):
    others = await program.start("a", "b")
    moved = [each.measured("lease_unowned_seconds_count") for each in others]
    (c,) = await program.start("c")
    await asyncio.sleep(10)
    had, before = c.permitted, now()
    await c.kill()
    assert await program.unowned(25) <= 20.0
    assert program.shares == [4, 4]
    assert set(program.moved(since=before)) == had
    assert sum(each.measured("lease_unowned_seconds_count") for each in others) - sum(moved) == len(had)
    unowned = sum(each.measured("lease_unowned_seconds_sum") for each in others)
    assert 15.0 * len(had) <= unowned <= 20.0 * len(had)


async def test_shard_is_released_only_when_its_running_reconciles_have_ended(program: Program):
    (a,) = await program.start("a", ends=20.0)
    await program.start("b")
    await asyncio.sleep(10)
    assert len(a.permitted) == COUNT, "the replica works on its shards and renews them"
    await asyncio.sleep(10)
    assert program.shares == [4, 4]


async def test_replica_stops_writing_for_a_shard_before_other_replicas_see_its_release(program: Program):
    (a,) = await program.start("a")
    # The server acts at once, so other replicas see it before the response arrives.
    a.wire.on("PUT", EVERYTHING, program.server.late(1.0))
    await program.start("b")
    assert program.shares == [4, 4]


async def test_replica_stops_reconciling_after_its_process_was_paused(program: Program):
    a, b = await program.start("a", "b")
    await asyncio.sleep(10)
    freeze(20.0)
    assert not a.permitted
    assert not a.coordinator.held.numbers
    with pytest.raises(Fenced, match="not renewed in time"):
        await a.transport.request("POST", DATA)
    assert "this process was held up" in await a.lost()
    assert "this process was held up" in await b.lost()


async def test_coordinator_of_a_disconnected_replica_ends_and_other_replicas_acquire_its_shards(
    program: Program,
):
    await program.start("a", "b")
    (c,) = await program.start("c")
    await asyncio.sleep(10)
    renewed = max(sent.at for sent in c.wire.sent("PUT"))
    c.reach(Unreached())
    assert "could not be renewed for 10s" in await c.lost()
    assert now() <= renewed + 10.0
    assert c.watchdog.due() is not None
    with pytest.raises(Fenced):
        await c.transport.request("POST", DATA)
    assert await program.unowned(20) <= 20.0
    assert program.shares == [4, 4]


async def test_coordinator_ends_with_an_error_when_another_holder_takes_a_shard(program: Program):
    a, _ = await program.start("a", "b")
    number = min(a.permitted - {0})
    program.server.put(f"{NAME}-{number}", {"holderIdentity": "somebody"})
    assert await a.lost() == f"lease default/{NAME}-{number} is now held by somebody"


async def test_shard_is_unowned_for_less_than_2_seconds_during_a_rolling_update(program: Program):
    await program.start("a", "b", "c")
    before = now()

    async def roll() -> None:
        for old, new in zip(program.replicas, "def", strict=True):
            await program.start(new)
            await old.stop()
            await asyncio.sleep(2)

    rolling = asyncio.create_task(roll())
    assert await program.unowned(25) < 2.0
    await rolling
    assert program.shares == [2, 3, 3]
    assert len(program.moved(since=before)) <= 2 * COUNT, "each shard moves twice at most"


async def test_replica_uses_a_shard_whose_acquisition_response_was_lost(program: Program):
    await program.start("a")
    b = program.begin("b")
    for path in program.server.leases:
        b.wire.on("PUT", path, LostAfter(program.server.answer), program.server.answer)
    await asyncio.sleep(20)
    assert program.shares == [4, 4]


async def test_replica_repeats_a_lost_shard_acquisition_that_causes_no_watch_event(program: Program):
    a = program.begin("a")
    answer = program.server.answer
    # The replica creates its own Lease and shard 0's Lease. The third request gets lost: no event follows.
    a.wire.on("POST", LEASES, answer, answer, Unreached(), answer)
    await asyncio.sleep(20)
    assert program.shares == [8]


async def test_replica_acquires_shards_whose_leases_name_a_running_replica_but_have_expired(program: Program):
    labels = {f"{NAME}/lease": "shard"}
    for number in range(4):
        # b has given these Leases up while the server was unreachable.
        name = f"{NAME}-{number}" if number else NAME
        notes = {f"{NAME}/shards": f"{COUNT}"}
        program.server.put(name, {"holderIdentity": "b"}, labels=labels, annotations=notes)
    b, _ = program.begin("b"), program.begin("a", prepares=3.0)
    await asyncio.sleep(10)
    assert b.permitted == set(range(4, COUNT)), "b assigns the other shards to a, and a assigns them to b"
    await asyncio.sleep(10)
    assert program.shares == [4, 4]


async def test_replica_repeats_its_first_lease_list_when_the_list_is_refused(program: Program):
    await program.start("a")
    b = program.begin("b")
    refused = [Reply.status(403, "Forbidden", "it cannot list")]

    def answer(sent: Sent) -> Any:
        return program.server.answer(sent) if sent.query.get("watch") or not refused else refused.pop()

    b.wire.on("GET", LEASES, answer)
    await asyncio.sleep(20)
    assert program.shares == [4, 4]


async def test_write_permit_stays_invalid_when_its_released_shard_is_acquired_again(program: Program):
    (a,) = await program.start("a")
    earlier = dict(a.working)
    (b,) = await program.start("b")
    given_up = b.permitted
    await b.stop()
    await asyncio.sleep(5)
    assert program.shares == [8]
    assert {number for number, leadership in earlier.items() if not permits(leadership)} == given_up


@pytest.mark.parametrize("fault", [Stall, Unreached, lambda: Reply.status(500)])
async def test_coordinator_moves_no_shard_during_a_short_outage(program: Program, fault: type[Stall]):
    a, b = await program.start("a", "b")
    await asyncio.sleep(5)
    before = now()
    for replica in (a, b):
        replica.reach(fault())
    await asyncio.sleep(4)
    for replica in (a, b):
        replica.reach()
    await asyncio.sleep(20)
    assert program.shares == [4, 4]
    assert not program.moved(since=before)


async def test_replica_without_the_right_to_create_leases_owns_no_shard(program: Program):
    await program.start("a")
    b = program.begin("b")
    b.wire.on("POST", EVERYTHING, Reply.status(403, "Forbidden", "leases is forbidden: it cannot create"))
    await asyncio.sleep(30)
    assert program.shares == [0, 8]
    assert b.coordinator.problem is not None
    assert "it cannot create" in b.coordinator.problem


@pytest.fixture
def short_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "LONGEST", 1024 * 1024)
    monkeypatch.setattr(lease, "_LARGE", 8 * 1024)


@pytest.mark.usefixtures("short_answers")
async def test_replica_acquires_shards_when_other_programs_have_many_large_leases(program: Program):
    await program.start("a")
    for number in range(100):
        odd = {
            "labels": {f"{NAME}/lease": "shard"},
            "annotations": {"note": "x" * 20_000, f"{NAME}/ready": "1"},
        }
        program.server.put(f"{NAME}-odd-{number}", {"holderIdentity": "y" * 5_000}, **odd)
    (b,) = await program.start("b")
    await asyncio.sleep(20)
    assert program.shares == [4, 4]
    known = [view.lease for view in b.coordinator._watcher if view.lease is not None]
    assert len(known) > 100
    assert max(len(each.encode()) for each in known) < 6_000


@pytest.mark.usefixtures("short_answers")
@pytest.mark.parametrize("size", [0, 20_000])
async def test_shard_of_a_crashed_replica_moves_15_to_21_s_after_its_last_renewal_even_if_its_lease_is_large(
    program: Program, size: int
):
    (a,) = await program.start("a")
    name = f"{NAME}-3"
    lease = program.server.leases[f"{LEASES}/{name}"]
    notes = {**lease["metadata"].get("annotations", {}), "note": "x" * size}
    program.server.put(name, lease["spec"], annotations=notes)
    await asyncio.sleep(5)
    renewed = a.wire.sent("PUT", f"{LEASES}/{name}")[-1].at
    await a.kill()
    await program.start("b")
    await asyncio.sleep(60)
    assert program.shares == [8]
    (taken,) = (at for at, number, who in program.moves if (number, who) == (3, "b"))
    assert renewed + 15.0 <= taken < renewed + 21.0


@pytest.mark.usefixtures("short_answers")
async def test_replica_retries_failed_reads_of_a_large_lease_at_intervals_and_acquires_it(program: Program):
    path, note = f"{LEASES}/{NAME}-3", {"note": "x" * 20_000}
    labels = {f"{NAME}/lease": "shard"}
    program.server.put(f"{NAME}-3", {"holderIdentity": ""}, labels=labels, annotations=note)
    a = program.begin("a")
    a.wire.on("GET", path, *[Reply.status(403)] * 100, program.server.answer)
    await asyncio.sleep(20)
    assert 2 <= len(a.wire.sent("GET", path)) <= 20
    a.wire.on("GET", path, program.server.answer)
    await asyncio.sleep(20)
    assert program.shares == [8]
    assert program.server.leases[path]["metadata"]["annotations"] == note


async def test_coordinator_ends_with_the_error_of_a_failed_shard_release(
    program: Program, monkeypatch: pytest.MonkeyPatch
):
    (a,) = await program.start("a")

    async def end(_: int) -> None:
        raise RuntimeError("it cannot end")

    monkeypatch.setattr(a, "end", end)
    await program.start("b")
    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.wait_for(a.finished(), 60)
    assert caught.group_contains(RuntimeError, match="it cannot end")


async def test_replica_stopped_before_it_owns_a_shard_leaves_no_lease_behind(program: Program):
    await program.start("a")
    b = Replica(program, "b", prepares=1000.0)
    await asyncio.sleep(1)
    await b.stop()
    await asyncio.sleep(5)
    assert program.shares == [8]
    holders = {lease["spec"]["holderIdentity"] for lease in program.server.leases.values()}
    assert holders == {"a"}


async def test_watchdog_deadline_depends_on_the_lease_with_the_earliest_renew_deadline(program: Program):
    (a,) = await program.start("a")
    await asyncio.sleep(30)
    oldest = min(lock.deadline for lock in a.coordinator._locks)
    assert a.watchdog.due() == pytest.approx(oldest + 4.0, abs=0.001)
    guard = a.coordinator._locks[0]._guard
    guard.close(NAME, "taken by somebody")
    lost = now()
    guard.renewed(f"{NAME}-1", lost + 10.0)
    assert a.watchdog.due() == pytest.approx(lost + 4.0, abs=0.001)
    await a.stop()
    assert a.watchdog.due() is None
