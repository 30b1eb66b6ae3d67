from __future__ import annotations

import asyncio

import pytest

from manager.clock import monotonic as now
from tests.support.scripted_wire import Delayed, LostAfter, LostBefore, Reply, Stall, Unreached
from tests.unit.leader.conftest import LEASE, LEASES, NAME, NAMESPACE, Election

pytestmark = pytest.mark.virtual_time


async def test_a_released_lease_is_free_and_the_election_ends(election: Election):
    first = await election.leader()
    await asyncio.sleep(60)
    released = now()
    await first.elector.release()
    assert first.run is not None
    await first.run
    assert now() - released < 0.1
    assert election.spec["holderIdentity"] == ""
    assert election.spec["leaseDurationSeconds"] == 1
    assert not first.elector.leading
    assert first.gauge == 0


async def test_after_a_release_other_writes_are_still_allowed(election: Election):
    first = await election.leader()
    first.wire.on("POST", "/events", Reply())
    await first.elector.release()
    await asyncio.sleep(60)
    await first.transport.request("POST", "/events")


async def test_the_leader_renews_until_it_releases(election: Election):
    first = await election.leader()
    second = await election.standby()
    await asyncio.sleep(30)  # reconciles that are still running
    assert first.elector.leading
    await first.elector.release()
    await second.elector.elected.wait()
    assert election.spec["leaseTransitions"] == 1


async def test_a_release_carries_the_version_so_that_it_never_hits_another_holder(election: Election):
    first = await election.leader()
    await asyncio.sleep(60)
    election.server.put(NAMESPACE, NAME, {"holderIdentity": "another"})
    await first.elector.release()
    assert first.run is not None
    await first.run
    assert election.spec["holderIdentity"] == "another"


async def test_a_release_whose_answer_is_lost_is_looked_after(election: Election):
    first = await election.leader()
    await asyncio.sleep(60)
    first.wire.on("PUT", LEASE, LostAfter(election.server.answer), election.server.answer)
    await first.elector.release()
    assert election.spec["holderIdentity"] == ""


async def test_a_release_that_gets_lost_is_sent_again(election: Election):
    first = await election.leader()
    await asyncio.sleep(60)
    first.wire.on("PUT", LEASE, LostBefore(), Stall(), election.server.answer)
    started = now()
    await first.elector.release(within=5.0)
    assert election.spec["holderIdentity"] == ""
    assert now() - started <= 5.0


async def test_a_release_after_a_renewal_whose_answer_was_lost_finds_the_version_first(election: Election):
    first = await election.leader()
    await asyncio.sleep(60)
    first.wire.on("PUT", LEASE, LostAfter(election.server.answer), election.server.answer)
    await asyncio.sleep(2.1)
    assert first.elector.problem is not None
    await first.elector.release()
    assert election.spec["holderIdentity"] == ""


async def test_a_release_that_cannot_be_done_ends_in_time_and_raises_nothing(election: Election):
    first = await election.leader()
    await asyncio.sleep(60)
    first.wire.on("PUT", LEASE, Unreached())
    started = now()
    await first.elector.release(within=3.0)
    assert now() - started <= 3.2
    assert first.run is not None
    await first.run
    assert election.spec["holderIdentity"] == "first"


async def test_a_release_waits_for_the_renewal_in_flight(election: Election):
    first = await election.leader()
    await asyncio.sleep(60)
    first.wire.on("PUT", LEASE, Delayed(1.0, election.server.answer), election.server.answer)
    await asyncio.sleep(2.0)
    assert first.transport.writes_in_flight == 1
    await first.elector.release()
    assert election.spec["holderIdentity"] == ""
    assert first.elector.problem is None


async def test_a_standby_stops_at_once_and_writes_nothing(election: Election):
    await election.leader()
    second = await election.standby()
    await asyncio.sleep(30)
    stopped = now()
    await second.elector.release()
    assert second.run is not None
    await second.run
    assert now() - stopped < 0.1
    assert not second.wire.sent("PUT")
    assert not second.elector.elected.is_set()
    assert election.spec["holderIdentity"] == "first"


async def test_a_claim_in_flight_when_asked_to_stop_is_given_back(election: Election):
    first = election.candidate("first")
    first.wire.on("POST", LEASES, Delayed(1.0, election.server.answer))
    first.start()
    await asyncio.sleep(0.5)
    await first.elector.release()
    assert election.spec["holderIdentity"] == ""
    assert not first.elector.elected.is_set()
    assert first.gauge == 0


async def test_a_claim_whose_answer_was_lost_is_given_back_too(election: Election):
    first = election.candidate("first")
    first.wire.on("POST", LEASES, LostAfter(election.server.answer))
    # Not seen by other means before the stop.
    first.wire.on("GET", LEASES, Unreached())
    first.start()
    await asyncio.sleep(0.5)
    assert election.spec["holderIdentity"] == "first"
    await first.elector.release()
    assert election.spec["holderIdentity"] == ""


async def test_an_election_that_was_stopped_before_it_began_does_nothing(election: Election):
    first = election.candidate("first")
    await first.elector.release()
    await first.start()
    assert not first.wire.requests


async def test_releasing_twice_is_once(election: Election):
    first = await election.leader()
    await asyncio.gather(first.elector.release(), first.elector.release())
    await first.elector.release()
    assert first.renewals() == 1
