from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from manager.kube.errors import KubeError
from manager.util.clock import monotonic as now
from tests.support.scripted_wire import Delayed, LostAfter, LostBefore, Reply, Stall, Unreached
from tests.unit.events.conftest import EVENTS, WRITES, Bench, EventServer, widget

pytestmark = pytest.mark.virtual_time


async def write_for(bench: Bench, seconds: float) -> None:
    """Keep a write in flight for so long, as busy workers do: one after the other without a pause."""
    bench.wire.on("POST", WRITES, Delayed(0.1, Reply()))
    until = now() + seconds
    while now() < until:
        await bench.transport.request("POST", WRITES)


async def test_an_event_is_sent_soon_when_nothing_else_is_written(bench: Bench):
    await asyncio.sleep(10)
    bench.recorder.event(widget(), "Normal", "Created", "x")
    await asyncio.sleep(0.1)
    assert len(bench.wire.sent("POST", EVENTS)) == 1


async def test_an_event_waits_while_other_writes_are_in_flight(bench: Bench):
    writing = asyncio.ensure_future(write_for(bench, 0.7))
    await asyncio.sleep(0.01)
    bench.recorder.event(widget(), "Normal", "Created", "x")
    await asyncio.sleep(0.6)
    assert not bench.wire.sent("POST", EVENTS)
    await writing
    await asyncio.sleep(0.1)
    assert len(bench.wire.sent("POST", EVENTS)) == 1


async def test_events_are_not_put_off_for_ever_by_other_writes(bench: Bench):
    writing = asyncio.ensure_future(write_for(bench, 20))
    for number in range(50):
        bench.recorder.event(widget(f"w{number}"), "Normal", "Created", "x")
    await asyncio.sleep(15)
    assert 13 <= len(bench.wire.sent("POST", EVENTS)) <= 16
    await writing


async def test_outbox_sends_one_event_at_a_time(bench: Bench):
    bench.wire.on("POST", EVENTS, Delayed(0.5, bench.server.answer))
    for number in range(10):
        bench.recorder.event(widget(f"w{number}"), "Normal", "Created", "x")
    most = 0
    for _ in range(60):
        await asyncio.sleep(0.1)
        most = max(most, bench.transport.writes_in_flight)
    assert most == 1
    assert len(bench.server.listed) == 10


async def test_events_are_sent_at_a_bounded_rate(server: EventServer):
    bench = Bench(server, rate=5, burst=10)
    bench.start()
    for number in range(100):
        bench.recorder.event(widget(f"w{number}"), "Normal", "Created", "x")
    await asyncio.sleep(10)
    assert 55 <= len(bench.server.listed) <= 61
    await bench.stop()


async def test_outbox_drops_the_oldest_events_when_it_is_full(server: EventServer):
    bench = Bench(server, capacity=10)
    for number in range(25):
        bench.recorder.event(widget(f"w{number}"), "Normal", "Created", "x")
    bench.start()
    names = [event["involvedObject"]["name"] for event in await bench.settled()]
    assert names == [f"w{number}" for number in range(15, 25)]
    assert bench.outcome("overflow") == 15
    bench.recorder.event(widget("w0"), "Normal", "Created", "x")
    assert (await bench.settled())[-1]["count"] == 2, "what was dropped still counts"
    await bench.stop()


async def test_a_namespace_with_very_many_keeps_no_other_waiting_and_pushes_none_of_it_out(
    server: EventServer,
):
    bench = Bench(server, capacity=20)
    bench.wire.on("POST", EVENTS, Delayed(5, bench.server.answer))  # as slow as Events with huge contents
    bench.start()
    bench.recorder.event(widget(namespace="other"), "Normal", "Created", "x")
    for number in range(100):
        bench.recorder.event(widget(f"w{number}"), "Normal", "Created", "x")
    bench.recorder.event(widget("late", namespace="other"), "Normal", "Created", "x")
    await asyncio.sleep(6)
    names = [event["involvedObject"]["name"] for event in bench.server.listed]
    assert names == ["w", "w82", "late"]
    assert bench.outcome("overflow") == 82
    await bench.stop()


@pytest.mark.parametrize("fault", [Unreached(), LostBefore(), Reply.status(500), Reply.status(503)])
async def test_an_event_that_fails_is_tried_again(bench: Bench, fault: Reply):
    bench.wire.on("POST", EVENTS, fault, fault, bench.server.answer)
    bench.recorder.event(widget(), "Normal", "Created", "x")
    assert len(await bench.settled()) == 1
    assert bench.outcome("created") == 1


async def test_an_event_that_was_stored_although_the_answer_was_lost_is_stored_once(bench: Bench):
    bench.wire.on("POST", EVENTS, LostAfter(bench.server.answer), bench.server.answer)
    bench.recorder.event(widget(), "Normal", "Created", "x")
    (event,) = await bench.settled()
    assert event["count"] == 1
    bench.recorder.event(widget(), "Normal", "Created", "x")
    (event,) = await bench.settled()
    assert event["count"] == 2


async def test_an_event_that_fails_again_and_again_makes_room_for_the_next(bench: Bench):
    bench.wire.on("POST", EVENTS, *[Unreached()] * 5, bench.server.answer)
    bench.recorder.event(widget("w1"), "Normal", "Created", "x")
    bench.recorder.event(widget("w2"), "Normal", "Created", "x")
    (event,) = await bench.settled()
    assert event["involvedObject"]["name"] == "w2"
    assert bench.outcome("failed") == 1


@pytest.mark.parametrize(
    "answer", [Reply.status(403, "Forbidden"), Reply.status(404, "NotFound"), Reply.status(422)]
)
async def test_an_event_that_the_server_refuses_is_dropped(bench: Bench, answer: Reply):
    bench.wire.on("POST", EVENTS, answer, bench.server.answer)
    bench.recorder.event(widget("w1"), "Normal", "Created", "x")
    bench.recorder.event(widget("w2"), "Normal", "Created", "x")
    (event,) = await bench.settled()
    assert event["involvedObject"]["name"] == "w2"
    assert bench.outcome("refused") == 1


async def test_outbox_logs_few_lines_about_failures_and_counts_every_one(bench: Bench):
    refused, lost = Reply.status(403, "Forbidden", "the namespace goes"), [Unreached()] * 5
    answers = [refused, bench.server.answer, *lost, bench.server.answer] * 30
    bench.wire.on("POST", EVENTS, *answers)
    with capture_logs() as lines:
        for number in range(4 * 30):
            bench.recorder.event(widget(f"w{number}"), "Normal", "Created", "x")
        await asyncio.sleep(1200)
    assert bench.outcome("refused") == 30
    assert bench.outcome("failed") == 30
    assert 2 <= len(lines) <= 12
    assert {line["error"] for line in lines[:2]} == {"the namespace goes", "cannot connect (scripted)"}
    assert lines[0]["times"] == 1


@pytest.mark.parametrize(
    "answer",
    [
        Reply.status(403, "Forbidden", details={"causes": [{"reason": "NamespaceTerminating"}]}),
        Reply.status(404, "NotFound", details={"kind": "namespaces", "name": "ns"}),
    ],
)
async def test_an_event_in_a_namespace_that_goes_or_is_gone_is_dropped_without_a_word(
    bench: Bench, answer: Reply
):
    bench.wire.on("POST", EVENTS, answer)
    with capture_logs() as lines:
        bench.recorder.event(widget(), "Normal", "Created", "x")
        await bench.settled()
    assert (lines, bench.outcome("refused")) == ([], 1)


async def test_an_event_that_the_server_has_forgotten_is_created_anew(bench: Bench):
    bench.recorder.event(widget(), "Normal", "Created", "x")
    await bench.settled()
    bench.server.forget()
    bench.recorder.event(widget(), "Normal", "Created", "x")
    (event,) = await bench.settled()
    assert event["count"] == 2
    assert [sent.method for sent in bench.wire.requests] == ["POST", "PATCH", "POST"]
    bench.recorder.event(widget(), "Normal", "Created", "x")
    await bench.settled()
    assert bench.wire.requests[-1].method == "PATCH"


async def test_a_flush_sends_all_that_waits_whatever_the_rate(bench: Bench):
    for number in range(500):
        bench.recorder.event(widget(f"w{number}"), "Normal", "Created", "x")
    started = now()
    assert await bench.recorder.flush(2.0)
    assert now() - started < 0.1
    assert len(bench.server.listed) == 500


async def test_a_flush_ends_when_its_time_is_up(bench: Bench):
    bench.wire.on("POST", EVENTS, Stall())
    for number in range(5):
        bench.recorder.event(widget(f"w{number}"), "Normal", "Created", "x")
    started = now()
    assert not await bench.recorder.flush(2.0)
    assert now() - started == pytest.approx(2.0)
    await bench.stop()
    assert bench.outcome("unsent") == 5


async def test_a_flush_with_nothing_to_send_returns_at_once(bench: Bench):
    started = now()
    assert await bench.recorder.flush(2.0)
    assert now() == started


async def test_outbox_drops_waiting_events_and_sends_nothing_after_a_fence(bench: Bench):
    for number in range(5):
        bench.recorder.event(widget(f"w{number}"), "Normal", "Created", "x")
    bench.transport.fence("another one leads")
    assert await bench.recorder.flush(2.0)
    assert not bench.wire.requests
    assert bench.outcome("refused") == 5


async def test_events_do_not_keep_the_process_awake_when_there_are_none(bench: Bench):
    loop = asyncio.get_running_loop()
    await asyncio.sleep(1)
    assert not loop.timers


async def test_a_failing_write_of_others_does_not_block_events(bench: Bench):
    bench.wire.on("POST", WRITES, LostBefore())
    with pytest.raises(KubeError):
        await bench.transport.request("POST", WRITES)
    bench.recorder.event(widget(), "Normal", "Created", "x")
    assert len(await bench.settled()) == 1


async def test_outbox_drops_events_of_a_missing_namespace_and_delays_no_others(bench: Bench):
    gone = Reply.status(404, "NotFound", details={"kind": "namespaces", "name": "ns"})
    bench.wire.on("POST", EVENTS, gone)
    for number in range(1000):
        bench.recorder.event(widget(f"w{number}"), "Normal", "Created", "x")
    bench.recorder.event(widget(namespace="other"), "Normal", "Created", "x")
    await asyncio.sleep(1)
    assert [each["metadata"]["namespace"] for each in bench.server.listed] == ["other"]
    assert len(bench.wire.sent("POST", EVENTS)) == 1
    assert bench.outcome("refused") == 1000
    bench.recorder.event(widget("w1"), "Normal", "Created", "x")
    await asyncio.sleep(1)
    assert len(bench.wire.sent("POST", EVENTS)) == 2, "it may have been created anew"


TOO_LARGE = Reply.status(500, "", "etcdserver: request is too large")


async def spoilt(bench: Bench, name: str, answer: Reply) -> None:
    """Put an Event about that object on the server, with this answer to every change."""
    bench.recorder.event(widget(name), "Normal", "Created", "x")
    await bench.settled()
    stored = bench.server.listed[-1]["metadata"]["name"]
    bench.wire.on("PATCH", f"{EVENTS}/{stored}", answer)


class TestAnEventThatSomebodyHasSpoilt:
    """Events that other clients have filled or changed so that nothing else can update them."""

    async def test_spoilt_event_delays_no_other_event(self, bench: Bench):
        for number in range(20):
            await spoilt(bench, f"w{number}", TOO_LARGE)
        for number in range(20):
            bench.recorder.event(widget(f"w{number}"), "Normal", "Created", "x")
        bench.recorder.event(widget("other"), "Normal", "Created", "x")
        await asyncio.sleep(0.9)
        assert bench.server.listed[-1]["involvedObject"]["name"] == "other"

    @pytest.mark.parametrize(
        "answer",
        [TOO_LARGE, Reply.status(413), Reply.status(422), Reply.status(409), Reply.status(400)],
        ids=["500", "413", "422", "409", "400"],
    )
    async def test_spoilt_event_is_followed_by_a_new_one_that_counts_on(self, bench: Bench, answer: Reply):
        await spoilt(bench, "w", answer)
        for count in (2, 3):
            bench.recorder.event(widget("w"), "Normal", "Created", "x")
            first, second = await bench.settled()
            assert (first["count"], second["count"]) == (1, count)


class TestAnEventThatTheServerFailsOn:
    @pytest.fixture
    async def failing(self, bench: Bench) -> Bench:
        bench.wire.on("POST", "/api/v1/namespaces/odd/events", Reply.status(500, "InternalError"))
        bench.recorder.event(widget("w", namespace="odd"), "Normal", "Created", "x")
        await asyncio.sleep(0.1)
        return bench

    def attempts(self, bench: Bench) -> int:
        return len(bench.wire.sent("POST", "/api/v1/namespaces/odd/events"))

    async def test_failing_event_waits_alone_and_is_retried_for_two_minutes(self, failing: Bench):
        failing.recorder.event(widget("other"), "Normal", "Created", "x")
        await asyncio.sleep(0.1)
        assert len(failing.server.listed) == 1
        await asyncio.sleep(60)
        assert (self.attempts(failing), failing.outcome("failed")) == (6, 0)
        await asyncio.sleep(140)
        assert (self.attempts(failing), failing.outcome("failed")) == (8, 1)
        failing.recorder.event(widget("w", namespace="odd"), "Normal", "Created", "x")
        await asyncio.sleep(200)
        assert (self.attempts(failing), failing.outcome("failed")) == (16, 2)

    async def test_failing_event_takes_along_what_is_recorded_before_its_retry(self, failing: Bench):
        failing.recorder.event(widget("w", namespace="odd"), "Normal", "Created", "x")
        failing.wire.on("POST", "/api/v1/namespaces/odd/events", failing.server.answer)
        (event,) = await failing.settled()
        assert (event["count"], failing.outcome("merged")) == (2, 1)

    async def test_failing_event_waits_only_once_when_it_recurs_while_it_is_sent(self, bench: Bench):
        fails = Delayed(0.5, Reply.status(500, "InternalError"))
        bench.wire.on("POST", EVENTS, fails, fails, bench.server.answer)
        for _ in range(3):
            bench.recorder.event(widget("w"), "Normal", "Created", "x")
            await asyncio.sleep(0.4)
        (event,) = await bench.settled()
        assert (event["count"], len(bench.wire.requests)) == (3, 3)

    async def test_flush_retries_a_failing_event_once_and_does_not_wait(self, failing: Bench):
        started = now()
        assert await failing.recorder.flush(2.0)
        assert (self.attempts(failing), now()) == (2, started)
        await failing.stop()
        assert failing.outcome("unsent") == 1

    async def test_failing_event_is_dropped_when_its_namespace_is_missing(self, failing: Bench):
        gone = Reply.status(404, "NotFound", details={"kind": "namespaces", "name": "odd"})
        failing.wire.on("POST", "/api/v1/namespaces/odd/events", gone)
        failing.recorder.event(widget("w2", namespace="odd"), "Normal", "Created", "x")
        await failing.settled()
        assert (self.attempts(failing), failing.outcome("refused")) == (2, 2)

    async def test_failing_event_is_dropped_first_when_the_outbox_is_full(self, server: EventServer):
        bench = Bench(server, capacity=10)
        bench.wire.on("POST", "/api/v1/namespaces/odd/events", Reply.status(500, "InternalError"))
        bench.start()
        for number in range(10):
            bench.recorder.event(widget(f"w{number}", namespace="odd"), "Normal", "Created", "x")
        await asyncio.sleep(0.5)
        for number in range(3):
            bench.recorder.event(widget(f"new{number}"), "Normal", "Created", "x")
        await asyncio.sleep(0.5)
        assert (len(bench.server.listed), bench.outcome("overflow")) == (3, 3)
        await bench.stop()
        assert bench.outcome("unsent") == 7
