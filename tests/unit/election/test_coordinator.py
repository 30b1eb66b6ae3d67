"""The right of a leader to act outside the cluster, which ends when its lease ends."""

from __future__ import annotations

import asyncio

import pytest

from manager.election.coordinator import Leadership
from manager.kube.errors import Fenced
from manager.util.clock import monotonic as now
from tests.support.scripted_wire import Unreached
from tests.unit.election.conftest import LEASE, NAME, Election

pytestmark = pytest.mark.virtual_time


async def test_leadership_permit_and_guard_always_succeed_when_there_is_no_election():
    leadership = Leadership()
    await asyncio.sleep(3600)
    leadership.permit(seconds=3600)
    async with leadership.held():
        await asyncio.sleep(3600)


async def test_leadership_permit_and_guard_raise_fenced_when_the_process_has_never_led(election: Election):
    await election.leader()
    second = await election.standby()
    with pytest.raises(Fenced, match="this process does not lead"):
        second.elector.leadership.permit()
    with pytest.raises(Fenced, match="this process does not lead"):
        async with second.elector.leadership.held():
            pytest.fail("the block was entered")


async def test_leadership_guard_lets_a_block_run_while_the_leader_renews_its_lease(election: Election):
    first = await election.leader()
    async with first.elector.leadership.held():
        await asyncio.sleep(120)
    for _ in range(300):
        await asyncio.sleep(0.37)
        first.elector.leadership.permit()
        # A permit is always valid for at least the renew deadline minus two retry periods.
        first.elector.leadership.permit(seconds=6)
        with pytest.raises(Fenced, match="may not lead for 10 s more"):
            first.elector.leadership.permit(seconds=10)


@pytest.mark.parametrize("taken", [False, True])
async def test_leadership_guard_cancels_its_block_when_the_lease_is_lost(election: Election, taken: bool):
    first = await election.leader(seconds=60)
    renewed = first.wire.sent("PUT", LEASE)[-1].at
    if taken:
        election.server.put(NAME, {"holderIdentity": "another"})
    else:
        first.wire.on("PUT", LEASE, Unreached())
    with pytest.raises(Fenced, match=r"not renewed in time|could not be renewed|is now held by another"):
        async with first.elector.leadership.held():
            await asyncio.sleep(3600)
    assert now() - renewed <= 2.5 if taken else now() == pytest.approx(renewed + 10, abs=0.001)
    await asyncio.sleep(0.01)
    with pytest.raises(Fenced, match="is now held by another" if taken else "could not be renewed for 10s"):
        first.elector.leadership.permit()
    await first.lost()


async def test_leadership_guard_propagates_errors_timeouts_and_cancellation_of_its_block(election: Election):
    first = await election.leader()
    with pytest.raises(TimeoutError):
        async with first.elector.leadership.held(), asyncio.timeout(1):
            await asyncio.sleep(3600)
    with pytest.raises(ValueError, match="no such pet"):
        async with first.elector.leadership.held():
            raise ValueError("no such pet")

    async def effect() -> None:
        async with first.elector.leadership.held():
            await asyncio.sleep(3600)

    task = asyncio.create_task(effect())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_leadership_permit_in_a_thread_raises_only_after_the_lease_is_released(election: Election):
    first = await election.leader()
    await asyncio.to_thread(first.elector.leadership.permit)
    await first.elector.release()
    with pytest.raises(Fenced, match="the lease is given back"):
        await asyncio.to_thread(first.elector.leadership.permit)
