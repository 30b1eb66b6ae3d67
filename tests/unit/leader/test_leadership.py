"""Effects outside of the cluster: permitted while the lease is held for sure, and not a moment longer."""

from __future__ import annotations

import asyncio

import pytest

from manager.clock import monotonic as now
from manager.kube.errors import Fenced
from manager.leader.leadership import Leadership
from manager.leader.lease import LeadershipLost
from manager.simulation.loop import freeze
from tests.support.scripted_wire import Stall, Unreached
from tests.unit.leader.conftest import LEASE, NAME, NAMESPACE, Candidate, Election

virtual_time = pytest.mark.virtual_time


async def cut_off(candidate: Candidate) -> float:
    """Let no renewal through any more; when the last one was sent."""
    renewed = candidate.wire.sent("PUT", LEASE)[-1].at
    candidate.wire.on("PUT", LEASE, Unreached())
    return renewed


@virtual_time
async def test_without_an_election_everything_is_permitted():
    leadership = Leadership()
    await asyncio.sleep(3600)
    leadership.permit(seconds=3600)
    async with leadership.held():
        await asyncio.sleep(3600)
    assert leadership.deadline == float("inf")


@virtual_time
async def test_who_has_never_led_is_permitted_nothing(election: Election):
    await election.leader()
    second = await election.standby()
    with pytest.raises(Fenced, match="this process does not lead"):
        second.elector.leadership.permit()
    with pytest.raises(Fenced, match="this process does not lead"):
        async with second.elector.leadership.held():
            pytest.fail("it was entered")


@virtual_time
async def test_a_leader_that_renews_is_permitted_at_any_time(election: Election):
    first = await election.leader()
    for _ in range(300):
        await asyncio.sleep(0.37)
        first.elector.leadership.permit()
        # As the docstring says: two retry periods less than the deadline are always there.
        first.elector.leadership.permit(seconds=6)
        with pytest.raises(Fenced, match="may not lead for 10 s more"):
            first.elector.leadership.permit(seconds=10)


@virtual_time
async def test_an_effect_may_take_long_as_long_as_the_lease_is_renewed(election: Election):
    first = await election.leader()
    async with first.elector.leadership.held():
        await asyncio.sleep(120)
    first.elector.leadership.permit()


@virtual_time
async def test_an_effect_under_way_is_ended_when_the_lease_cannot_be_held_for_sure(election: Election):
    first = await election.leader()
    await asyncio.sleep(60)
    renewed = await cut_off(first)
    with pytest.raises(Fenced, match=r"not renewed in time|could not be renewed"):
        async with first.elector.leadership.held():
            await asyncio.sleep(3600)
    assert now() == pytest.approx(renewed + 10, abs=0.001)
    await asyncio.sleep(0.01)
    with pytest.raises(Fenced, match="could not be renewed for 10s"):
        first.elector.leadership.permit()


@virtual_time
async def test_an_effect_under_way_is_ended_when_somebody_else_is_seen_to_hold_the_lease(election: Election):
    first = await election.leader()
    election.server.put(NAMESPACE, NAME, {"holderIdentity": "another"})
    with pytest.raises(Fenced, match="is now held by another"):
        async with first.elector.leadership.held():
            await asyncio.sleep(3600)
    assert now() < 5
    with pytest.raises(LeadershipLost):
        await first.run


@virtual_time
async def test_a_renewal_whose_answer_hangs_permits_nothing_after_the_deadline(election: Election):
    first = await election.leader()
    await asyncio.sleep(60)
    renewed = first.wire.sent("PUT", LEASE)[-1].at
    first.wire.on("PUT", LEASE, Stall())
    await asyncio.sleep(renewed + 9.9 - now())
    first.elector.leadership.permit()
    await asyncio.sleep(0.2)
    with pytest.raises(Fenced):
        first.elector.leadership.permit()


@virtual_time
async def test_nothing_is_permitted_once_the_lease_is_given_back(election: Election):
    first = await election.leader()
    await first.elector.release()
    with pytest.raises(Fenced, match="the lease is given back"):
        first.elector.leadership.permit()


@virtual_time
async def test_an_effect_that_fails_or_times_out_by_itself_says_so(election: Election):
    first = await election.leader()
    with pytest.raises(TimeoutError):
        async with first.elector.leadership.held(), asyncio.timeout(1):
            await asyncio.sleep(3600)
    with pytest.raises(ValueError, match="no such pet"):
        async with first.elector.leadership.held():
            raise ValueError("no such pet")


@virtual_time
async def test_who_is_cancelled_in_an_effect_is_cancelled(election: Election):
    first = await election.leader()

    async def effect() -> None:
        async with first.elector.leadership.held():
            await asyncio.sleep(3600)

    task = asyncio.create_task(effect())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@virtual_time
async def test_a_thread_may_ask_as_well(election: Election):
    first = await election.leader()
    await asyncio.to_thread(first.elector.leadership.permit)
    await first.elector.release()
    with pytest.raises(Fenced):
        await asyncio.to_thread(first.elector.leadership.permit)


@virtual_time
async def test_a_leader_that_was_held_up_past_the_deadline_is_permitted_nothing_when_it_goes_on(
    election: Election,
):
    first = await election.leader()
    await asyncio.sleep(60)
    freeze(20.0)  # what runs next is this very task, before any timer of the elector
    with pytest.raises(Fenced, match="not renewed in time"):
        first.elector.leadership.permit()
    with pytest.raises(LeadershipLost):
        await first.run
