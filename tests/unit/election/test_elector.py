"""Leader election: acquisition, renewal, loss and release of the lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import orjson
import pytest
from structlog.testing import capture_logs

from manager.election.lease import Lease
from manager.kube.errors import Fenced
from manager.kube.wire import WireRequest
from manager.util.clock import monotonic as now
from manager_tools.simulation.loop import freeze
from tests.support.scripted_wire import Delayed, LostAfter, LostBefore, Reply, Stall, Step, Unreached
from tests.unit.election.conftest import DATA, EVERYTHING, LEASE, LEASES, NAME, NAMESPACE, Candidate, Election
from tests.unit.election.program import Leader, Program, program

__all__ = ["program"]

pytestmark = pytest.mark.virtual_time


async def test_first_replica_leads_immediately_and_then_renews_once_per_retry_period(election: Election):
    first = election.candidate("first")
    assert first.gauge == 0
    await first.lead()
    assert now() < 0.1
    assert first.gauge == 1
    assert (election.spec["leaseDurationSeconds"], election.spec["leaseTransitions"]) == (15, 0)
    await asyncio.sleep(1)
    before = len(first.wire.requests)
    await asyncio.sleep(120)
    assert 60 <= first.renewals() <= 67
    assert len(first.wire.requests) - before <= 67
    assert first.leads
    assert election.spec["holderIdentity"] == first.elector.identity == "first"
    assert first.elector._lock.taken
    assert now() + 8.0 <= first.elector._lock.deadline <= now() + 10.0


@pytest.mark.parametrize("fault", [Unreached, LostBefore, LostAfter, Stall, lambda: Reply.status(500)])
async def test_leader_sends_no_write_after_its_renew_deadline(election: Election, fault: Callable[..., Step]):
    first = await election.leader(seconds=60)
    renewed = first.wire.sent("PUT", LEASE)[-1].at
    # A renewal whose response is lost does not count.
    first.wire.on("PUT", LEASE, fault(election.server.answer) if fault is LostAfter else fault())
    await asyncio.sleep(renewed + 9.9 - now())
    first.elector.leadership.permit()
    assert first.watchdog.due() == pytest.approx(renewed + 14.0, abs=0.001)
    text = await first.lost()
    assert first.watchdog.due() == pytest.approx(renewed + 14.0, abs=0.001)
    assert now() == pytest.approx(renewed + 10.0, abs=0.001)
    assert text.startswith("lease default/election could not be renewed for 10s: cannot renew lease")
    assert not first.leads
    assert first.gauge == 0
    assert first.wire.aborts >= 1
    with pytest.raises(Fenced, match="could not be renewed for 10s"):
        await first.transport.request("POST", DATA)
    with pytest.raises(Fenced, match="could not be renewed for 10s"):
        first.elector.leadership.permit()


async def test_renew_deadline_counts_from_the_time_at_which_the_renewal_was_sent(election: Election):
    first = await election.leader(seconds=60)
    # The server stores the renewal at once, but its response is late.
    first.wire.on("PUT", LEASE, election.server.late(4.5), Stall())
    await asyncio.sleep(2.1)
    sent = first.wire.sent("PUT", LEASE)[-1].at
    assert first.transport.writes_in_flight == 1
    await first.lost()
    assert now() == pytest.approx(sent + 10.0, abs=0.001)


@pytest.mark.parametrize(
    ("fault", "warnings"),
    [
        (lambda _: Stall(), 1),
        (lambda _: Reply.status(429, "TooManyRequests", retry_after=3), 0),
        (lambda _: Reply.status(429, "TooManyRequests", retry_after=86_400), 1),
        (LostAfter, 1),
    ],
    ids=["hangs", "throttled", "throttled for a day", "answer lost"],
)
async def test_leader_sends_a_second_renewal_when_the_first_fails_or_hangs(
    election: Election, fault: Callable[..., Step], warnings: int
):
    first = await election.leader(seconds=60)
    first.wire.on("PUT", LEASE, fault(election.server.answer), election.server.answer)
    with capture_logs() as logs:
        await asyncio.sleep(30)
    assert first.leads
    assert first.elector.problem is None
    assert len([line for line in logs if line.get("error", "").startswith("cannot renew lease")]) == warnings
    assert election.spec["leaseTransitions"] == 0


async def test_lease_renewal_is_retried_immediately_after_a_conflict(election: Election):
    first = await election.leader()
    await asyncio.sleep(60.3)
    election.server.put(NAME, {**election.spec, "strategy": "x"})
    await asyncio.sleep(2.3)
    assert first.leads
    refused, again = first.wire.sent("PUT", LEASE)[-2:]
    assert again.at - refused.at < 0.3
    assert election.spec["strategy"] == "x", "spec fields of other clients are kept"
    assert first.elector.problem is None


async def test_leader_reads_the_lease_again_before_it_accepts_another_holder(election: Election):
    first = await election.leader(seconds=10)
    # An event of an outdated watch cache; this version cannot be compared.
    behind = Lease({"name": NAME, "resourceVersion": "old"}, {"holderIdentity": "another"})
    first.elector._lock._view.saw(behind, now=now())
    await asyncio.sleep(10)
    assert first.leads
    assert len(first.wire.sent("GET", LEASE)) == 2, "one read before the first acquisition, and one now"


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize(("by", "now_is"), [("another", "held by another"), ("", "released by somebody")])
async def test_leadership_ends_when_another_client_acquires_or_releases_the_lease(
    election: Election, by: str, now_is: str, deleted: bool
):
    first = await election.leader(seconds=60)
    if deleted:
        election.server.delete(NAME)
    election.server.put(NAME, {"holderIdentity": by})
    taken = now()
    assert await first.lost() == f"lease default/election is now {now_is}"
    assert now() - taken <= 2.5
    # Work gets only a short time to end.
    assert first.watchdog.due() == pytest.approx(now() + 4.0, abs=0.001)
    assert election.spec["holderIdentity"] == by


async def test_lease_holder_recreates_a_deleted_lease_before_another_replica_acquires_it(election: Election):
    first = await election.leader()
    second = await election.standby()
    await asyncio.sleep(60.5)
    election.server.delete(NAME)
    await asyncio.sleep(2.5)
    assert first.leads
    assert election.spec["holderIdentity"] == "first"
    await asyncio.sleep(60)
    assert first.leads
    assert not second.leads


async def test_leader_writes_nothing_after_a_process_pause_beyond_the_renew_deadline(election: Election):
    first = await election.leader()
    first.wire.on("POST", DATA, Reply())
    await asyncio.sleep(60)
    freeze(20.0)  # this task continues before the elector's timers run
    assert not first.leads
    with pytest.raises(Fenced, match="not renewed in time"):
        first.elector.leadership.permit()
    with pytest.raises(Fenced, match="not renewed in time"):
        await first.transport.request("POST", DATA)
    assert await first.lost() == (
        "lease default/election could not be renewed for 10s: this process was held up"
    )
    assert not first.wire.sent("POST", DATA)


async def taken_over(first: Candidate, second: Candidate) -> float:
    """Release the lease of `first`; return the seconds until `second` leads."""
    await first.elector.release()
    released = now()
    await second.elector.elected.wait()
    return now() - released


NOT_ALLOWED = Reply.status(403, "Forbidden", 'leases "election" is forbidden: User "x" cannot do that')


@pytest.mark.parametrize("clock", ["", "pod/boot"])
async def test_standby_sends_no_request_until_its_watch_shows_a_release(election: Election, clock: str):
    first = await election.leader("first", clock=clock)
    second = await election.standby("second", clock=clock)
    assert (first.elector.leader, second.elector.leader) == ("first", "first")
    asked = len(second.wire.requests)
    await asyncio.sleep(120)
    assert not second.leads
    assert second.gauge == 0
    assert second.elector.problem is None
    assert len(second.wire.requests) == asked
    (watch,) = second.wire.sent("GET", LEASES)
    assert watch.query["fieldSelector"] == f"metadata.name={NAME}", "RBAC can grant a watch of one Lease"
    assert second.elector._lock._view.lease is not None
    assert second.elector._lock._view.lease.holder == "first"
    assert await taken_over(first, second) < 0.1


@pytest.mark.parametrize(
    ("clock", "after_renewal"), [("pod/boot", 15.0), ("pod/other-boot", 25.0), ("", 25.0)]
)
async def test_standby_waits_less_when_the_dead_leader_ran_on_the_same_host(
    election: Election, clock: str, after_renewal: float
):
    first = await election.leader("first", clock="pod/boot", seconds=60)
    renewed = first.wire.sent("PUT", LEASE)[-1].at
    await first.kill()
    await asyncio.sleep(renewed + 10 - now())
    second = election.candidate("second", clock=clock)
    await second.lead()
    assert renewed + after_renewal <= now() < renewed + after_renewal + 1


@pytest.mark.parametrize("clock", ["", "pod/boot"])
async def test_standby_takes_over_when_the_leader_stops_its_lease_renewals(election: Election, clock: str):
    first = await election.leader("first", clock=clock)
    second = await election.standby("second", clock=clock)
    await asyncio.sleep(60)
    silent_since = first.wire.sent("PUT", LEASE)[-1].at
    first.wire.on("PUT", LEASE, Stall())
    await second.elector.elected.wait()
    assert not first.leads
    await first.lost()
    assert 15.0 <= now() - silent_since < 15.1
    assert election.spec["leaseTransitions"] == 1


@pytest.mark.parametrize(
    ("path", "fault", "within"),
    [
        *(
            (LEASES, each, 2.0)
            for each in (NOT_ALLOWED, Stall(), Unreached(), Reply(body=b"<html>no</html>\n"))
        ),
        (LEASE, Stall(), 0.1),
    ],
    ids=["not allowed", "hangs", "unreached", "no JSON", "reads hang"],
)
async def test_standby_takes_over_a_released_lease_in_time_when_watch_or_reads_fail(
    election: Election, path: str, fault: Step, within: float
):
    first = await election.leader("first")
    second = election.candidate("second")
    second.wire.on("GET", path, fault)
    second.start()
    await asyncio.sleep(30.7)
    assert (second.elector.problem is None) == (path == LEASES), "only failed reads are a problem"
    if path == LEASES:  # instead, the standby reads the Lease once in each retry period
        assert 15 <= len(second.wire.sent("GET", LEASE)) <= 20
        assert len(second.wire.sent("GET", LEASES)) < 10
    assert await taken_over(first, second) <= within


async def test_silent_lease_watch_is_replaced_and_the_lease_is_read_again(election: Election):
    first = await election.leader("first")
    second = await election.standby("second")
    election.server.silence()
    await asyncio.sleep(60)
    # The standby reads the Lease each retry period until it replaces the watch after 1.5 lease durations.
    assert len(second.wire.sent("GET", LEASES)) == 2
    assert 10 <= len(second.wire.sent("GET", LEASE)) <= 16
    assert await taken_over(first, second) < 0.1


async def test_elector_reports_no_problem_after_it_lost_the_race_for_a_released_lease(election: Election):
    first = await election.leader("first")
    second, third = await election.standby("second"), await election.standby("third")
    await first.elector.release()
    await asyncio.sleep(30)
    assert second.leads is not third.leads
    assert second.elector.problem is third.elector.problem is None
    assert election.spec["leaseTransitions"] == 1


async def test_elector_reports_and_survives_a_response_that_is_not_a_lease(election: Election):
    body = b'{"metadata": {}, "spec": {"x": %b%b}}' % (b"[" * 300, b"]" * 300)
    first, second = election.candidate("first"), election.candidate("second")
    second.wire.on("GET", LEASE, Reply(body=body))
    second.wire.on("GET", LEASES, NOT_ALLOWED)
    second.start()
    await asyncio.sleep(60)
    problem = "cannot read lease default/election: not a Lease: it is nested too deeply"
    assert second.elector.problem == problem
    await first.lead()
    first.wire.on("PUT", LEASE, Reply(body=body), election.server.answer)
    await asyncio.sleep(60)
    assert first.leads


@pytest.mark.parametrize("fault", [LostAfter, LostBefore])
async def test_lease_acquisition_is_repeated_when_its_response_was_lost(
    election: Election, fault: type[LostAfter | LostBefore]
):
    first = election.candidate("first")
    lost = LostAfter(election.server.answer) if fault is LostAfter else LostBefore()
    first.wire.on("POST", LEASES, lost, election.server.answer)
    await first.lead()
    assert now() <= 2.1
    assert election.spec["holderIdentity"] == "first"
    assert election.spec["leaseTransitions"] == 0


async def test_renew_deadline_counts_from_the_time_at_which_the_acquisition_was_sent(election: Election):
    first = election.candidate("first")
    first.wire.on("POST", LEASES, Delayed(4.0, election.server.answer))
    await first.lead()
    assert now() == pytest.approx(4.0, abs=0.1)
    assert first.elector._lock.taken
    deadline = first.elector._lock.deadline
    assert deadline == pytest.approx(now() + 10.0 - 4.0, abs=0.1), (
        "counted from the time at which the acquisition was sent"
    )


async def test_lease_acquisition_is_repeated_when_the_process_paused_during_the_request(election: Election):
    first = election.candidate("first")

    def held_up(request: WireRequest) -> Step:
        freeze(11.0)
        return election.server.answer

    first.wire.on("POST", LEASES, held_up)
    await first.lead()
    assert first.leads, "by a second acquisition"
    assert first.elector._lock.deadline == pytest.approx(now() + 10.0, abs=0.1)
    assert len(first.wire.sent("PUT", LEASE)) == 1


async def test_elector_starts_no_work_when_stopped_before_it_has_written_the_shard_count(election: Election):
    election.server.put(NAME, {"holderIdentity": ""}, annotations={f"{NAME}/shards": "8"})
    first = election.candidate("first")
    answer = election.server.answer
    first.wire.on("PUT", LEASE, answer, Delayed(1.0, answer), answer)
    first.start()
    await asyncio.sleep(0.5)
    assert len(first.wire.sent("PUT", LEASE)) == 2, "the acquisition, and the write of the shard count"
    began: list[float] = []
    first.elector._lock._began = lambda: began.append(now())
    await first.elector.release()
    assert not began
    assert not first.elector.elected.is_set()
    assert election.spec["holderIdentity"] == ""


async def test_standby_does_not_treat_a_deleted_lease_as_released(election: Election):
    first = await election.leader("first")
    second = await election.standby("second")
    first.wire.on("PUT", LEASE, Stall())  # no renewal succeeds
    await asyncio.sleep(3)
    last_renewal = first.wire.sent("POST", LEASES)[-1].at
    election.server.delete(NAME)
    await asyncio.sleep(11)
    await first.lost()
    assert not second.leads
    await second.elector.elected.wait()
    assert now() >= last_renewal + 15.0


NO_NAMESPACE = Reply.status(404, "NotFound", 'namespaces "default" not found')


@pytest.mark.parametrize(
    ("verb", "exists", "answer"),
    [
        ("read", False, NOT_ALLOWED),
        ("take", False, NOT_ALLOWED),
        ("take", True, NOT_ALLOWED),
        ("take", False, NO_NAMESPACE),
    ],
)
async def test_elector_reports_a_lasting_problem_and_logs_it_once(
    election: Election, verb: str, exists: bool, answer: Reply
):
    if exists:
        election.server.put(NAME, {"holderIdentity": ""})
    first = election.candidate("first")
    refused = {"read": [("GET", LEASE), ("GET", LEASES)], "take": [("POST", LEASES), ("PUT", LEASE)]}[verb]
    for method, path in refused:
        first.wire.on(method, path, answer)
    with capture_logs() as lines:
        first.start()
        await asyncio.sleep(1)
        for _ in range(100):
            assert first.elector.problem is not None
            await asyncio.sleep(0.3)
    why = orjson.loads(answer.body)["message"]
    problem = f"cannot {verb} lease default/election: {why}"
    assert [line.get("error") for line in lines].count(problem) == 1
    assert not [line for line in lines if why in line.get("was", "")]
    assert first.elector.problem == problem
    assert len(first.wire.requests) <= 70
    if exists:  # no problem when another replica holds the lease
        election.server.put(NAME, {"holderIdentity": "other", "leaseDurationSeconds": 15})
        await asyncio.sleep(3)
        assert first.elector.problem is None
    else:
        for method, path in refused:
            first.wire.on(method, path, election.server.answer)
        await asyncio.wait_for(first.elector.elected.wait(), 2.1)
        assert first.elector.problem is None


async def test_elector_release_ends_the_election_and_frees_the_lease(election: Election):
    first = await election.leader()
    first.wire.on("POST", DATA, Reply())
    second = await election.standby()
    await asyncio.sleep(60)
    released = now()
    assert second.watchdog.due() is None
    await second.kill()
    await first.elector.release()
    await first.finished()
    assert now() - released < 0.1
    assert first.watchdog.due() is None
    renewals = first.renewals()
    await asyncio.gather(first.elector.release(), first.elector.release())
    assert first.renewals() == renewals, "a second release does nothing"
    assert election.spec["holderIdentity"] == ""
    assert election.spec["leaseDurationSeconds"] == 1
    assert not first.leads
    assert first.gauge == 0
    await first.transport.request("POST", DATA)  # a write such as an Event


async def test_elector_release_never_frees_the_lease_of_another_holder(election: Election):
    first = await election.leader(seconds=60)
    election.server.put(NAME, {"holderIdentity": "another"})
    await first.elector.release()
    await first.finished()
    assert election.spec["holderIdentity"] == "another"


@pytest.mark.parametrize("faults", [("before", "stall"), ("after",)])
@pytest.mark.parametrize("renewing", [False, True])
async def test_elector_release_is_repeated_when_its_answer_was_lost(
    election: Election, faults: tuple[str, ...], renewing: bool
):
    first = await election.leader(seconds=60)
    steps = {"before": LostBefore(), "stall": Stall(), "after": LostAfter(election.server.answer)}
    first.wire.on("PUT", LEASE, *(steps[each] for each in faults), election.server.answer)
    if renewing:  # after a lost renewal, the release first reads the version
        await asyncio.sleep(2.1)
        assert first.elector.problem is not None
    started = now()
    await first.elector.release(within=5.0)
    assert election.spec["holderIdentity"] == ""
    assert now() - started <= 5.0


async def test_elector_release_ends_within_its_timeout_when_the_server_is_unreachable(election: Election):
    first = await election.leader(seconds=60)
    first.wire.on("PUT", LEASE, Unreached())
    started = now()
    await first.elector.release(within=3.0)
    assert now() - started <= 3.2
    await first.finished()
    assert election.spec["holderIdentity"] == "first"


async def test_elector_release_waits_for_the_renewal_in_flight(election: Election):
    first = await election.leader(seconds=60)
    first.wire.on("PUT", LEASE, Delayed(1.0, election.server.answer), election.server.answer)
    await asyncio.sleep(2.0)
    assert first.transport.writes_in_flight == 1
    await first.elector.release()
    renewal, release = first.wire.sent("PUT", LEASE)[-2:]
    assert release.at - renewal.at == pytest.approx(1.0)
    assert election.spec["holderIdentity"] == ""
    assert first.elector.problem is None


async def test_standby_ends_immediately_without_a_write_when_it_is_stopped(election: Election):
    await election.leader()
    second = await election.standby()
    await asyncio.sleep(30)
    stopped = now()
    await second.elector.release()
    await second.finished()
    assert now() - stopped < 0.1
    assert not second.wire.sent("PUT")
    assert not second.elector.elected.is_set()
    assert election.spec["holderIdentity"] == "first"
    third = election.candidate("third")
    await third.elector.release()
    third.start()
    await third.finished()
    assert not third.wire.requests


@pytest.mark.parametrize("lost", [False, True])
async def test_elector_stop_releases_the_lease_when_acquisition_is_in_flight_or_its_response_is_lost(
    election: Election, lost: bool
):
    first = election.candidate("first")
    answer = election.server.answer
    first.wire.on("POST", LEASES, LostAfter(answer) if lost else Delayed(1.0, answer))
    # The watch does not show the Lease before the stop.
    first.wire.on("GET", LEASES, Unreached())
    first.start()
    await asyncio.sleep(0.5)
    assert lost == bool(election.server.leases)
    asked = now()
    await first.elector.release()
    assert now() - asked == pytest.approx(0.0 if lost else 0.5, abs=0.1)
    assert election.spec["holderIdentity"] == ""
    assert not first.elector.elected.is_set()
    assert first.gauge == 0


@pytest.mark.parametrize("claims_again", [False, True])
async def test_elector_stop_releases_the_lease_when_acquisition_response_is_lost_and_watch_outdated(
    election: Election, claims_again: bool
):
    election.server.put(NAME, {"holderIdentity": ""})
    first = election.candidate("first")
    first.wire.on("PUT", LEASE, LostAfter(election.server.answer), election.server.answer)
    first.wire.on("GET", LEASES, Unreached())
    first.start()
    await asyncio.sleep(0.5)
    view = first.elector._lock._view
    assert (view.holder, election.spec["holderIdentity"]) == ("", "first")
    assert view.lease is not None
    view.saw(view.lease, now=now())
    if claims_again:  # the second acquisition finds another version
        await asyncio.sleep(0.1)
        assert len(first.wire.sent("PUT")) == 2
    await first.elector.release()
    assert election.spec["holderIdentity"] == ""
    assert not first.elector.elected.is_set()


async def test_elector_retries_at_intervals_when_a_missing_lease_cannot_be_created(election: Election):
    first = election.candidate("first")
    first.wire.on("POST", LEASES, Reply.status(409, "AlreadyExists", "it exists"))
    first.start()
    await asyncio.sleep(20)
    assert 2 < len(first.wire.sent("POST")) < 20


async def test_election_raises_the_error_when_the_work_of_the_leader_cannot_start(
    election: Election, monkeypatch: pytest.MonkeyPatch
):
    def start() -> None:
        raise RuntimeError("it cannot start")

    first = election.candidate("first")
    monkeypatch.setattr(first.elector._lock, "_began", start)
    first.start()
    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.wait_for(first.finished(), 30)
    assert [type(each) for each in caught.value.exceptions] == [RuntimeError]
    assert not first.leads


@pytest.mark.parametrize("killed", [False, True])
async def test_replica_with_sharding_waits_while_an_unsharded_leader_runs(program: Program, killed: bool):
    leader = await program.lead("leader")
    a, b = await program.start("a", "b")
    await asyncio.sleep(30)
    assert leader.leads
    assert not a.permitted | b.permitted
    # The replicas are ready, because a rolling update waits for ready replicas.
    assert (a.coordinator.problem, b.coordinator.problem) == (None, None)
    await (leader.kill() if killed else leader.stop())
    await asyncio.sleep(30 if killed else 10)
    assert program.shares == [4, 4]


@pytest.mark.parametrize("deleted", [False, True])
async def test_replica_without_sharding_leads_only_after_the_last_shard_is_released_or_lost(
    program: Program, deleted: bool
):
    await program.start("a", "b", ends=20.0)
    first, other = sorted(program.sharers, key=lambda each: 0 not in each.permitted)
    leader = await program.lead("leader")
    # The other replica cannot take the Lease of the leader, and still owns shards.
    other.wire.on("PUT", LEASE, Reply.status(409, "Conflict", "it has been modified"))
    await first.stop()
    await asyncio.sleep(3)
    if deleted:
        other.reach(Stall())  # it can neither renew its Leases nor create them again
        for number in range(1, other.count):
            if f"{LEASE}-{number}" in program.server.leases:
                program.server.delete(f"{NAME}-{number}")
    await asyncio.sleep(5)
    assert other.permitted
    assert not leader.leads
    if deleted:
        await other.lost()
    await asyncio.sleep(15)
    assert leader.leads
    assert not other.permitted


async def test_replica_without_sharding_waits_for_a_shard_owner_whose_lease_reads_fail(program: Program):
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


async def test_replica_without_sharding_reports_that_it_cannot_list_leases_and_never_leads(program: Program):
    (a,) = await program.start("a")
    await a.stop()
    leader = Leader(program, "leader")
    program.started.append(leader)
    leader.wire.on("GET", LEASES, Reply.status(403, "Forbidden", "leases is forbidden: it cannot list"))
    await asyncio.sleep(30)
    assert not leader.leads
    assert "it cannot list" in (leader.elector.problem or "")


async def test_replica_with_sharding_retries_at_intervals_when_leader_lease_is_unreadable(program: Program):
    await program.start("a")
    b = program.begin("b")
    b.wire.on("GET", LEASE, Reply.status(403, "Forbidden", "leases is forbidden: it cannot get"))
    await asyncio.sleep(30)
    # Replica b renews four shards and its own Lease in each retry period of 2 s.
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


async def test_replica_acquires_shard_leases_that_have_no_label(program: Program):
    program.server.put(NAME, {"holderIdentity": "somebody", "leaseDurationSeconds": 15})
    program.server.put(f"{NAME}-3", {"holderIdentity": ""})
    await program.start("a")
    await asyncio.sleep(30)
    assert program.shares == [8]
