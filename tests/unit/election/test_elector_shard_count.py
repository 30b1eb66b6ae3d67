"""Replicas with different shard counts, or without shards: they never work at the same time."""

from __future__ import annotations

import asyncio
import random

import pytest

from manager.election.coordinator import LeadershipLost
from tests.support.scripted_wire import Reply
from tests.unit.election.conftest import EVERYTHING, LEASE, LEASES, NAME, NAMESPACE
from tests.unit.election.program import SEEDS, Leader, Program, permits, program

__all__ = ["program"]

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize("killed", [False, True])
async def test_replica_with_shards_waits_until_the_single_leader_has_ended(program: Program, killed: bool):
    leader = await program.lead("leader")
    a, b = await program.start("a", "b")
    await asyncio.sleep(30)
    assert leader.leads
    assert not a.permitted | b.permitted
    # Ready: a rolling update goes on only when the new one is.
    assert (a.coordinator.problem, b.coordinator.problem) == (None, None)
    await (leader.kill() if killed else leader.stop())
    await asyncio.sleep(30 if killed else 10)
    assert program.shares == [4, 4]


async def test_single_leader_starts_after_the_last_shard_is_released(program: Program):
    await program.start("a", "b", ends=20.0)
    first, other = sorted(program.sharers, key=lambda each: 0 not in each.permitted)
    leader = await program.lead("leader")
    # The other replica cannot take the Lease of the leader, and still owns shards.
    other.wire.on("PUT", LEASE, Reply.status(409, "Conflict", "it has been modified"))
    await first.stop()
    await asyncio.sleep(5)
    assert other.permitted
    assert not leader.leads
    await asyncio.sleep(20)
    assert leader.leads
    assert not other.permitted


async def test_single_leader_without_the_right_to_list_leases_waits_while_a_replica_renews(program: Program):
    await program.start("a")
    (b,) = await program.start("b")
    leader = await program.lead("leader")
    program.server.silence()
    b.wire.on("GET", EVERYTHING, Reply.status(500))
    await program.sharers[0].stop()
    await asyncio.sleep(30)
    assert len(b.permitted) == 4
    assert not leader.leads
    await b.kill()
    await asyncio.sleep(20)
    assert leader.leads


async def test_leader_reports_missing_permission_to_list_shard_leases(program: Program):
    (a,) = await program.start("a")
    await a.stop()
    leader = Leader(program, "leader")
    program.replicas.append(leader)
    leader.wire.on("GET", LEASES, Reply.status(403, "Forbidden", "leases is forbidden: it cannot list"))
    await asyncio.sleep(30)
    assert not leader.leads
    assert "it cannot list" in (leader.elector.problem or "")


async def test_replica_with_shards_does_not_retry_in_a_tight_loop_when_it_cannot_read_the_first_lease(
    program: Program,
):
    await program.start("a")
    b = program.begin("b")
    b.wire.on("GET", LEASE, Reply.status(403, "Forbidden", "leases is forbidden: it cannot get"))
    await asyncio.sleep(30)
    # Four shards and its own Lease are renewed, once each retry period of 2 s.
    assert len(b.wire.sent("PUT", EVERYTHING)) < 5 * 30
    assert not b.permitted
    assert "it cannot get" in (b.coordinator.problem or "")
    b.wire.on("GET", LEASE, program.server.answer)
    await asyncio.sleep(10)
    assert program.shares == [4, 4]


async def test_replica_with_a_different_shard_count_waits_and_reports_the_reason(program: Program):
    (a,) = await program.start("a")
    (b,) = await program.start("b", count=4)
    await asyncio.sleep(30)
    assert len(a.permitted) == 8
    assert not b.permitted
    assert b.coordinator.problem == f"a has lease {NAMESPACE}/{NAME} with --shards=8, and this replica has 4"
    await a.stop()
    await asyncio.sleep(10)
    assert len(b.permitted) == 4
    assert b.coordinator.problem is None


async def test_lease_without_a_label_can_be_acquired(program: Program):
    program.server.put(NAMESPACE, NAME, {"holderIdentity": "somebody", "leaseDurationSeconds": 15})
    program.server.put(NAMESPACE, f"{NAME}-3", {"holderIdentity": ""})
    await program.start("a")
    await asyncio.sleep(30)
    assert program.shares == [8]


@pytest.mark.parametrize("seed", SEEDS)
async def test_replicas_never_run_with_two_shard_counts_at_once_under_random_restarts(
    program: Program, seed: int
):
    """Rely on the start hooks, which fail when two shard counts are active at once."""
    rng = random.Random(seed)
    for number in range(15):
        await asyncio.sleep(rng.choice((0.1, 1.0, 5.0, 20.0)) * rng.random())
        await program.bury()
        if len(program.replicas) < 4 and rng.random() < 0.6:
            if rng.random() < 0.4:
                await program.lead(f"leader-{number}")
            else:
                ends, count = rng.uniform(0, 5), rng.choice((8, 8, 4))
                await program.start(f"replica-{number}", ends=ends, count=count)
        elif program.replicas:
            victim = rng.choice(program.replicas)
            await (victim.stop() if rng.random() < 0.5 else victim.kill())
        for each in program.replicas:
            task = each.run if isinstance(each, Leader) else each.task
            if task.done() and (error := task.exception()) is not None:
                assert isinstance(error, LeadershipLost)
    for victim in list(program.replicas):
        await victim.stop()
    await program.start("last", "but one")
    await asyncio.sleep(30)
    assert program.shares == [4, 4]
    assert all(permits(term) for each in program.sharers for term in each.working.values())
