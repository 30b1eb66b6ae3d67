"""Effects outside of the cluster: permitted while the lease is held for sure, and not a moment longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from manager.election.guard import Leadership, LeadershipLost
from manager.election.lease_client import LeaseClient
from manager.kube.errors import Conflict, Fenced
from manager.util.clock import monotonic as now
from manager_tools.simulation.loop import freeze
from tests.support.scripted_wire import LostAfter, LostBefore, Reply, Stall, Step, Unreached
from tests.unit.election.conftest import LEASE, NAME, NAMESPACE, Candidate, Election

pytestmark = pytest.mark.virtual_time
DATA = "/api/v1/namespaces/default/configmaps/x"


async def lost(candidate: Candidate) -> str:
    """Why it lost the leadership, once it has."""
    assert candidate.run is not None
    with pytest.raises(LeadershipLost) as caught:
        await candidate.run
    return str(caught.value)


async def test_a_leader_renews_once_each_retry_period_and_asks_nothing_else(election: Election):
    first = await election.leader()
    await asyncio.sleep(1)
    before = len(first.wire.requests)
    await asyncio.sleep(120)
    assert 60 <= first.renewals() <= 67
    assert len(first.wire.requests) - before <= 67
    assert first.elector.leading
    assert election.spec["holderIdentity"] == first.elector.identity == "first"
    assert first.elector._lock._renewer is not None
    assert now() + 8.0 <= first.elector._lock._renewer.deadline <= now() + 10.0


@pytest.mark.parametrize("fault", [Unreached, LostBefore, LostAfter, Stall, lambda: Reply.status(500)])
async def test_a_leader_that_cannot_renew_stops_at_the_deadline_and_no_write_leaves_after(
    election: Election, fault: Callable[..., Step]
):
    first = await election.leader()
    await asyncio.sleep(60)
    renewed = first.wire.sent("PUT", LEASE)[-1].at
    # A renewal that is made, and whose answer is lost, does not count.
    first.wire.on("PUT", LEASE, fault(election.server.answer) if fault is LostAfter else fault())
    await asyncio.sleep(renewed + 9.9 - now())
    first.elector.leadership.permit()
    text = await lost(first)
    assert now() == pytest.approx(renewed + 10.0, abs=0.001)
    assert text.startswith("lease default/election could not be renewed for 10s: cannot renew lease")
    assert not first.elector.leading
    assert first.gauge == 0
    assert first.wire.aborts >= 1
    with pytest.raises(Fenced, match="could not be renewed for 10s"):
        await first.transport.request("POST", DATA)
    with pytest.raises(Fenced, match="could not be renewed for 10s"):
        first.elector.leadership.permit()


async def test_the_deadline_counts_from_when_the_renewal_was_sent(election: Election):
    first = await election.leader()
    await asyncio.sleep(60)
    # The server renews it at once, and its answer takes long.
    first.wire.on("PUT", LEASE, election.server.late(4.5), Stall())
    await asyncio.sleep(2.1)
    sent = first.wire.sent("PUT", LEASE)[-1].at
    assert first.transport.writes_in_flight == 1
    await lost(first)
    assert now() == pytest.approx(sent + 10.0, abs=0.001)


async def test_elector_recognises_its_own_renewal_after_a_lost_answer(election: Election):
    first = await election.leader()
    await asyncio.sleep(60)
    first.wire.on("PUT", LEASE, LostAfter(election.server.answer), election.server.answer)
    with capture_logs() as logs:
        await asyncio.sleep(30)
    assert first.elector.leading
    assert first.elector.problem is None
    assert len([line for line in logs if line["event"].startswith("cannot renew lease")]) == 1
    assert election.spec["leaseTransitions"] == 0


async def test_a_renewal_refused_because_of_an_edit_by_others_is_made_again_at_once(election: Election):
    first = await election.leader()
    await asyncio.sleep(60.3)
    election.server.put(NAMESPACE, NAME, {**election.spec, "strategy": "x"})
    edited = now()
    await asyncio.sleep(2.3)
    assert first.elector.leading
    assert first.wire.sent("PUT", LEASE)[-1].at - edited < 2.3
    assert election.spec["strategy"] == "x", "what others put there is kept"
    assert first.elector.problem is None


async def test_a_request_that_hangs_leaves_time_for_a_second_one(election: Election):
    first = await election.leader()
    await asyncio.sleep(60)
    first.wire.on("PUT", LEASE, Stall(), election.server.answer)
    await asyncio.sleep(20)
    assert first.elector.leading


@pytest.mark.parametrize("seconds", [3, 86_400])
async def test_a_leader_that_is_told_to_come_back_later_does_within_the_deadline(
    election: Election, seconds: int
):
    first = await election.leader()
    await asyncio.sleep(60)
    busy = Reply.status(429, "TooManyRequests", retry_after=seconds)
    first.wire.on("PUT", LEASE, busy, election.server.answer)
    await asyncio.sleep(30)
    assert first.elector.leading


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize(("by", "now_is"), [("another", "held by another"), ("", "released by somebody")])
async def test_a_lease_taken_or_released_by_another_ends_the_leadership_as_soon_as_it_is_seen(
    election: Election, by: str, now_is: str, deleted: bool
):
    first = await election.leader()
    await asyncio.sleep(60)
    if deleted:
        election.server.delete(NAMESPACE, NAME)
    election.server.put(NAMESPACE, NAME, {"holderIdentity": by})
    taken = now()
    assert await lost(first) == f"lease default/election is now {now_is}"
    assert now() - taken <= 2.5
    # The work has only a moment to end.
    assert first.watchdog.due() == pytest.approx(now() + 4.0, abs=0.001)
    assert election.spec["holderIdentity"] == by


async def test_a_deleted_lease_is_created_again_by_its_holder_and_nobody_takes_it_meanwhile(
    election: Election,
):
    first = await election.leader()
    second = await election.standby()
    await asyncio.sleep(60.5)
    election.server.delete(NAMESPACE, NAME)
    await asyncio.sleep(2.5)
    assert first.elector.leading
    assert election.spec["holderIdentity"] == "first"
    await asyncio.sleep(60)
    assert first.elector.leading
    assert not second.elector.leading


async def test_lease_client_write_does_not_recreate_a_deleted_lease(election: Election):
    first = await election.leader()
    leases = LeaseClient(first.transport, namespace=NAMESPACE, name=NAME)
    lease = await leases.read(timeout=1.0)
    assert lease is not None
    await first.kill()
    election.server.delete(NAMESPACE, NAME)
    with pytest.raises(Conflict):
        await leases.write(lease, timeout=1.0)
    assert not election.server.leases


async def test_a_leader_that_was_held_up_past_the_deadline_writes_nothing_when_it_goes_on(election: Election):
    first = await election.leader()
    first.wire.on("POST", DATA, Reply())
    await asyncio.sleep(60)
    freeze(20.0)  # this task runs next, before any timer of the elector
    assert not first.elector.leading
    with pytest.raises(Fenced, match="not renewed in time"):
        first.elector.leadership.permit()
    with pytest.raises(Fenced, match="not renewed in time"):
        await first.transport.request("POST", DATA)
    assert await lost(first) == (
        "lease default/election could not be renewed for 10s: this process was held up"
    )
    assert not first.wire.sent("POST", DATA)


async def test_a_leader_that_does_not_end_after_losing_the_lease_is_ended_before_another_may_lead(
    election: Election,
):
    first = await election.leader()
    for _ in range(30):
        await asyncio.sleep(2.0)
        renewed = first.wire.sent("PUT", LEASE)[-1].at
        assert first.watchdog.due() == pytest.approx(renewed + 14.0, abs=0.001)
    first.wire.on("PUT", LEASE, Stall())
    await lost(first)
    assert first.watchdog.due() == pytest.approx(renewed + 14.0, abs=0.001)


async def test_watchdog_is_not_due_in_a_standby_or_after_a_release(election: Election):
    first = await election.leader()
    second = await election.standby()
    await asyncio.sleep(60)
    assert second.watchdog.due() is None
    await first.elector.release()
    assert first.watchdog.due() is None


async def test_leadership_permits_everything_without_an_election():
    leadership = Leadership()
    await asyncio.sleep(3600)
    leadership.permit(seconds=3600)
    async with leadership.held():
        await asyncio.sleep(3600)
    assert leadership.deadline == float("inf")


async def test_leadership_permits_nothing_when_the_process_has_never_led(election: Election):
    await election.leader()
    second = await election.standby()
    with pytest.raises(Fenced, match="this process does not lead"):
        second.elector.leadership.permit()
    with pytest.raises(Fenced, match="this process does not lead"):
        async with second.elector.leadership.held():
            pytest.fail("it was entered")


async def test_a_leader_that_renews_is_permitted_at_any_time(election: Election):
    first = await election.leader()
    for _ in range(300):
        await asyncio.sleep(0.37)
        first.elector.leadership.permit()
        # As the docstring says: two retry periods less than the deadline are always there.
        first.elector.leadership.permit(seconds=6)
        with pytest.raises(Fenced, match="may not lead for 10 s more"):
            first.elector.leadership.permit(seconds=10)


async def test_an_effect_may_take_long_as_long_as_the_lease_is_renewed(election: Election):
    first = await election.leader()
    async with first.elector.leadership.held():
        await asyncio.sleep(120)
    first.elector.leadership.permit()


async def test_an_effect_under_way_is_ended_when_the_lease_cannot_be_held_for_sure(election: Election):
    first = await election.leader()
    await asyncio.sleep(60)
    renewed = first.wire.sent("PUT", LEASE)[-1].at
    first.wire.on("PUT", LEASE, Unreached())
    with pytest.raises(Fenced, match=r"not renewed in time|could not be renewed"):
        async with first.elector.leadership.held():
            await asyncio.sleep(3600)
    assert now() == pytest.approx(renewed + 10, abs=0.001)
    await asyncio.sleep(0.01)
    with pytest.raises(Fenced, match="could not be renewed for 10s"):
        first.elector.leadership.permit()
    with pytest.raises(LeadershipLost):
        await first.run


async def test_an_effect_under_way_is_ended_when_somebody_else_is_seen_to_hold_the_lease(election: Election):
    first = await election.leader()
    election.server.put(NAMESPACE, NAME, {"holderIdentity": "another"})
    with pytest.raises(Fenced, match="is now held by another"):
        async with first.elector.leadership.held():
            await asyncio.sleep(3600)
    assert now() < 5
    with pytest.raises(LeadershipLost):
        await first.run


async def test_an_effect_that_fails_or_times_out_by_itself_says_so(election: Election):
    first = await election.leader()
    with pytest.raises(TimeoutError):
        async with first.elector.leadership.held(), asyncio.timeout(1):
            await asyncio.sleep(3600)
    with pytest.raises(ValueError, match="no such pet"):
        async with first.elector.leadership.held():
            raise ValueError("no such pet")


async def test_leadership_held_passes_a_cancellation_on(election: Election):
    first = await election.leader()

    async def effect() -> None:
        async with first.elector.leadership.held():
            await asyncio.sleep(3600)

    task = asyncio.create_task(effect())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_thread_may_ask_as_well(election: Election):
    first = await election.leader()
    await asyncio.to_thread(first.elector.leadership.permit)
    await first.elector.release()
    with pytest.raises(Fenced, match="the lease is given back"):
        await asyncio.to_thread(first.elector.leadership.permit)
