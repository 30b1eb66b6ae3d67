"""Kubernetes Events: many events in few objects, sent after all other writes, in virtual time."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from devcluster import DevCluster
from devcluster.storage import Change, Key
from manager import events
from manager.api import ObjectMeta, Resource
from manager.events import Correlator, EventRecorder, ObjectReference
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics
from manager.util import clock
from manager.util.clock import monotonic as now
from tests.support.cluster_wire import ClusterServer
from tests.support.scripted_wire import (
    Delayed,
    LostAfter,
    LostBefore,
    Reply,
    ScriptedWire,
    Stall,
    Step,
    Unreached,
)

pytestmark = pytest.mark.virtual_time

EVENTS = "/api/v1/namespaces/ns/events"
WRITES = "/apis/apps/v1/namespaces/ns/deployments"


class Widget(Resource, group="test.example.com", version="v1", plural="widgets"):
    """Kind of the objects about which tests record events."""


def widget(name: str = "w", *, namespace: str = "ns", version: str = "5") -> Widget:
    return Widget(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=f"uid-of-{name}", resource_version=version)
    )


class EventServer(ClusterServer):
    """Control plane that remembers the order in which Events are created."""

    def __init__(self, cluster: DevCluster) -> None:
        super().__init__(cluster)
        self._created: list[Key] = []
        cluster.store.subscribe(self._note)

    def _note(self, change: Change) -> None:
        if change.old is None and change.key.plural == "events":
            self._created.append(change.key)

    @property
    def listed(self) -> list[dict[str, Any]]:
        """Return the stored Events in the order of their creation, without fields that the server added."""
        stored = [each.decode() for key in self._created if (each := self.cluster.store.get(key))]
        for each in stored:
            each["metadata"] = {name: each["metadata"][name] for name in ("name", "namespace")}
            assert each.pop("eventTime") is None
        return stored

    def forget(self) -> None:
        """Delete all Events, as an API server does after an hour."""
        for key in self._created:
            self.cluster.store.delete(key)
        self._created.clear()


class Bench:
    """A running Event recorder with its scripted connection and its server."""

    def __init__(self, server: EventServer) -> None:
        self.wire = ScriptedWire()
        self.server = server
        server.serve(self.wire)
        self.metrics = Metrics()
        rng = random.Random(1)
        self.transport = Transport(self.wire, metrics=self.metrics, rng=rng, user_agent="test")
        self.recorder = EventRecorder(
            self.transport,
            component="operator-manager",
            instance="host_1",
            metrics=self.metrics,
            rng=rng,
        )
        self.running: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.running = asyncio.get_running_loop().create_task(self.recorder.run())

    async def stop(self) -> None:
        if self.running is not None:
            self.running.cancel()
            await asyncio.wait([self.running])
            self.running = None

    def record(self, count: int) -> None:
        """Record an event about each of `count` objects."""
        for number in range(count):
            self.recorder.event(widget(f"w{number}"), "Normal", "Created", "x")

    def outcome(self, name: str) -> float:
        value = self.metrics.registry.get_sample_value("operator_manager_events_total", {"result": name})
        assert value is not None
        return value

    async def settled(self) -> list[dict[str, Any]]:
        """Wait until all Events are sent; return the Events on the server."""
        await asyncio.sleep(60)
        return self.server.listed


@pytest.fixture
async def server() -> AsyncIterator[EventServer]:
    async with DevCluster(port=None, controllers=False) as cluster:
        for name in ("ns", "other", "odd"):
            await cluster.client.create("namespaces", "", {"metadata": {"name": name}})
        yield EventServer(cluster)


@pytest.fixture
async def bench(server: EventServer) -> AsyncIterator[Bench]:
    bench = Bench(server)
    bench.start()
    yield bench
    await bench.stop()


SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def name_of(name: str, names: Correlator | None = None) -> str:
    names = names or Correlator(random.Random(1))
    return names.new_name(ObjectReference("v1", "ClusterRole", "", name), clock.now())


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("my.object", "my.object."),
        *((invalid, "clusterrole.") for invalid in ("system:node", "Capital", "", "a_b", "...")),
        ("x" * 253, "x" * 200),
        ("x" * 200 + "." * 5 + "y" * 48, "clusterrole."),
        ("a" * 235 + "-." + "b" * 16, "a" * 200),
    ],
)
def test_event_name_contains_the_kind_if_the_object_name_is_invalid(name: str, begin: str):
    given = name_of(name)
    assert given.startswith(begin)
    assert len(given) <= 253
    assert SUBDOMAIN.fullmatch(given)
    assert int(given.rpartition(".")[2], 16) > 1_700_000_000 * 10**9


def test_event_names_are_unique_within_the_resolution_of_the_clock():
    names = Correlator(random.Random(1))
    given = [name_of("x", names) for _ in range(5000)]
    assert len(set(given)) == len(given)


async def test_correlator_forgets_the_least_recently_used_event_series(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(events, "REMEMBERED", 3)
    correlator = Correlator(random.Random(1))

    def count(name: str) -> int:
        return correlator.observe(ObjectReference.of(widget(name)), "Normal", "Created", "x")[0].count

    assert [count(name) for name in "abcadab"] == [1, 1, 1, 2, 1, 3, 1]


async def test_event_is_stored_with_the_fields_that_kubectl_describe_shows(bench: Bench):
    bench.recorder.event(widget(), "Normal", "Created", "Created Deployment w")
    (event,) = await bench.settled()
    name = event["metadata"].pop("name")
    assert name.startswith("w.")
    int(name.removeprefix("w."), 16)
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "ns"},
        "involvedObject": {
            "apiVersion": "test.example.com/v1",
            "kind": "Widget",
            "namespace": "ns",
            "name": "w",
            "uid": "uid-of-w",
            "resourceVersion": "5",
        },
        "type": "Normal",
        "reason": "Created",
        "message": "Created Deployment w",
        "count": 1,
        "firstTimestamp": "2027-01-15T08:00:00Z",
        "lastTimestamp": "2027-01-15T08:00:00Z",
        "source": {"component": "operator-manager"},
        "reportingComponent": "operator-manager",
        "reportingInstance": "host_1",
    }
    assert bench.outcome("created") == 1
    role = ObjectReference("rbac.authorization.k8s.io/v1", "ClusterRole", "", "reader")
    bench.recorder.event(role, "Normal", "Created", "x")
    (_, event) = await bench.settled()
    assert event["metadata"]["namespace"] == "default"
    assert event["involvedObject"] == {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "name": "reader",
    }


async def test_recorder_increments_the_count_of_a_repeated_event_with_one_request(bench: Bench):
    bench.recorder.event(widget(), "Warning", "Failed", "no")
    await asyncio.sleep(10)
    for _ in range(20):
        bench.recorder.event(widget(version="6"), "Warning", "Failed", "no")
    (event,) = await bench.settled()
    assert event["count"] == 21
    assert event["firstTimestamp"] == "2027-01-15T08:00:00Z"
    assert event["lastTimestamp"] == "2027-01-15T08:00:10Z"
    assert [sent.method for sent in bench.wire.requests] == ["POST", "PATCH"]
    assert bench.wire.requests[1].json() == {
        "count": 21,
        "lastTimestamp": "2027-01-15T08:00:10Z",
        "message": "no",
    }
    assert [bench.outcome(each) for each in ("created", "updated", "merged")] == [1, 1, 19]


@pytest.mark.parametrize(
    "other",
    [
        (widget("v"), "Warning", "Failed", "no"),
        (widget(), "Normal", "Failed", "no"),
        (widget(), "Warning", "Refused", "no"),
        (widget(), "Warning", "Failed", "never"),
        (Widget(metadata=ObjectMeta(name="w", namespace="ns", uid="another")), "Warning", "Failed", "no"),
    ],
)
async def test_events_that_differ_in_one_field_are_stored_separately(bench: Bench, other: tuple[Any, ...]):
    bench.recorder.event(widget(), "Warning", "Failed", "no")
    bench.recorder.event(*other)
    assert [event["count"] for event in await bench.settled()] == [1, 1]


async def test_recorder_combines_similar_events_beyond_nine_until_none_occurs_for_10_minutes(bench: Bench):
    for number in range(15):
        bench.recorder.event(widget(), "Warning", "Failed", f"attempt {number}")
        bench.recorder.event(widget("long"), "Warning", "Failed", f"{number} " + "x" * 1022)
    events = await bench.settled()
    assert all(len(event["message"].encode()) <= 1024 for event in events)
    events = [event for event in events if event["involvedObject"]["name"] == "w"]
    assert [event["message"] for event in events[:9]] == [f"attempt {number}" for number in range(9)]
    assert len(events) == 10
    assert events[9]["message"] == "(combined from similar events): attempt 14"
    assert events[9]["count"] == 6
    await asyncio.sleep(601)
    bench.recorder.event(widget(), "Warning", "Failed", "attempt 99")
    assert (await bench.settled())[-1]["message"] == "attempt 99"


async def test_recorder_limits_requests_per_object_and_counts_every_event(bench: Bench):
    for number in range(100):
        bench.recorder.event(widget(), "Warning", "Failed", "no" if number % 2 else f"reason {number % 6}")
        await asyncio.sleep(1)
    requests = len(bench.wire.requests)
    assert requests == 25
    assert bench.outcome("filtered") == 75
    bench.recorder.event(widget("quiet"), "Normal", "Created", "x")
    assert (await bench.settled())[-1]["involvedObject"]["name"] == "quiet", "each object has its own limit"
    requests += 1
    await asyncio.sleep(300)
    bench.recorder.event(widget(), "Warning", "Failed", "no")
    events = await bench.settled()
    assert len(bench.wire.requests) == requests + 1
    assert next(event for event in events if event["message"] == "no")["count"] == 51


@pytest.mark.parametrize(
    ("message", "sent"), [("é" * 1000, "é" * 510 + "…"), ("bad \udc80 byte", "bad ? byte")]
)
async def test_event_texts_are_cut_to_the_length_limits_and_made_valid_utf_8(
    bench: Bench, message: str, sent: str
):
    bench.recorder.event(widget(), "Normal", "R" * 200, message)
    (event,) = await bench.settled()
    assert event["message"] == sent
    assert len(event["message"].encode()) <= 1024
    assert len(event["reason"].encode()) <= 128


async def test_recorder_counts_invalid_events_and_raises_nothing(bench: Bench):
    bench.recorder.event(None, "Normal", "Created", "x")  # type: ignore[arg-type]
    bench.recorder.event(widget(), "Normal", "Created", None)  # type: ignore[arg-type]
    assert await bench.settled() == []
    assert bench.outcome("invalid") == 2


async def test_recorder_never_logs_the_message_of_an_event(bench: Bench, capsys: pytest.CaptureFixture[str]):
    invalid = Reply.status(422, "Invalid", 'Event "x" is invalid: message: Invalid value: "s3cret"')
    bench.wire.on("POST", EVENTS, invalid)
    bench.recorder.event(widget(), "Normal", "Created", "the password is s3cret")
    bench.recorder.event(None, "Normal", "Created", "s3cret")  # type: ignore[arg-type]
    await bench.settled()
    output = capsys.readouterr()
    assert "cannot send events" in output.out + output.err
    assert "s3cret" not in output.out + output.err


async def write_for(bench: Bench, seconds: float) -> None:
    """Send writes one after another for this number of seconds, as busy workers do."""
    bench.wire.on("POST", WRITES, Delayed(0.1, Reply()))
    until = now() + seconds
    while now() < until:
        await bench.transport.request("POST", WRITES)


async def test_event_is_sent_after_writes_that_are_in_flight(bench: Bench):
    writing = asyncio.ensure_future(write_for(bench, 0.7))
    await asyncio.sleep(0.01)
    bench.recorder.event(widget(), "Normal", "Created", "x")
    await asyncio.sleep(0.6)
    assert not bench.wire.sent("POST", EVENTS)
    await writing
    await asyncio.sleep(0.1)
    assert len(bench.wire.sent("POST", EVENTS)) == 1
    await asyncio.sleep(10)
    bench.recorder.event(widget("late"), "Normal", "Created", "x")
    await asyncio.sleep(0.1)
    assert len(bench.wire.sent("POST", EVENTS)) == 2, "without other writes it is sent soon"


async def test_events_are_sent_about_once_a_second_while_other_writes_are_in_flight(bench: Bench):
    writing = asyncio.ensure_future(write_for(bench, 20))
    bench.record(50)
    await asyncio.sleep(15)
    assert 13 <= len(bench.wire.sent("POST", EVENTS)) <= 16
    await writing


async def test_recorder_sends_one_event_at_a_time(bench: Bench):
    bench.wire.on("POST", EVENTS, Delayed(0.5, bench.server.answer))
    bench.record(10)
    most = 0
    for _ in range(60):
        await asyncio.sleep(0.1)
        most = max(most, bench.transport.writes_in_flight)
    assert most == 1
    assert len(bench.server.listed) == 10


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let recorders send a burst of ten Events, and then five Events per second."""
    monkeypatch.setattr(events, "SENT_RATE", 5.0)
    monkeypatch.setattr(events, "SENT_BURST", 10)


@pytest.mark.usefixtures("slow")
async def test_events_are_sent_at_a_bounded_rate(bench: Bench):
    bench.record(100)
    await asyncio.sleep(10)
    assert 55 <= len(bench.server.listed) <= 61


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let recorders keep at most ten waiting Events."""
    monkeypatch.setattr(events, "CAPACITY", 10)


@pytest.mark.usefixtures("small")
async def test_recorder_drops_the_oldest_events_when_it_is_full(bench: Bench):
    bench.record(25)
    names = [event["involvedObject"]["name"] for event in await bench.settled()]
    assert names == [f"w{number}" for number in range(15, 25)]
    assert bench.outcome("overflow") == 15
    bench.recorder.event(widget("w0"), "Normal", "Created", "x")
    assert (await bench.settled())[-1]["count"] == 2, "dropped events count too"


@pytest.mark.usefixtures("small")
async def test_recorder_sends_events_of_other_namespaces_when_a_namespace_has_many_events(bench: Bench):
    bench.wire.on("POST", EVENTS, Delayed(5, bench.server.answer))  # as slow as Events with huge contents
    bench.recorder.event(widget(namespace="other"), "Normal", "Created", "x")
    bench.record(100)
    bench.recorder.event(widget("late", namespace="other"), "Normal", "Created", "x")
    await asyncio.sleep(6)
    names = [event["involvedObject"]["name"] for event in bench.server.listed]
    assert names == ["w", "w92", "late"]
    assert bench.outcome("overflow") == 92


@pytest.mark.parametrize("fault", [Unreached(), LostBefore(), Reply.status(500), Reply.status(503)])
async def test_failed_event_is_retried(bench: Bench, fault: Reply):
    bench.wire.on("POST", EVENTS, fault, fault, bench.server.answer)
    bench.recorder.event(widget(), "Normal", "Created", "x")
    assert len(await bench.settled()) == 1
    assert bench.outcome("created") == 1


async def test_event_is_stored_once_when_the_answer_was_lost(bench: Bench):
    bench.wire.on("POST", EVENTS, LostAfter(bench.server.answer), bench.server.answer)
    bench.recorder.event(widget(), "Normal", "Created", "x")
    (event,) = await bench.settled()
    assert event["count"] == 1
    bench.recorder.event(widget(), "Normal", "Created", "x")
    (event,) = await bench.settled()
    assert event["count"] == 2


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ([Unreached()] * 5, "failed"),
        ([Reply.status(403, "Forbidden")], "refused"),
        ([Reply.status(404, "NotFound")], "refused"),
        ([Reply.status(422)], "refused"),
    ],
)
async def test_recorder_drops_a_failing_or_refused_event_and_sends_the_next_event(
    bench: Bench, answers: list[Step], outcome: str
):
    bench.wire.on("POST", EVENTS, *answers, bench.server.answer)
    bench.record(2)
    (event,) = await bench.settled()
    assert event["involvedObject"]["name"] == "w1"
    assert bench.outcome(outcome) == 1


async def test_recorder_logs_few_lines_about_failures_and_counts_every_failure(bench: Bench):
    refused, lost = Reply.status(403, "Forbidden", "the namespace goes"), [Unreached()] * 5
    answers = [refused, bench.server.answer, *lost, bench.server.answer] * 30
    bench.wire.on("POST", EVENTS, *answers)
    with capture_logs() as lines:
        bench.record(120)
        await asyncio.sleep(1200)
    assert bench.outcome("refused") == 30
    assert bench.outcome("failed") == 30
    assert 2 <= len(lines) <= 12
    assert {line["error"] for line in lines[:2]} == {"the namespace goes", "cannot connect (scripted)"}
    assert lines[0]["times"] == 1


async def test_expired_event_is_created_again(bench: Bench):
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


async def test_recorder_flush_sends_all_pending_events_regardless_of_the_rate_limit(bench: Bench):
    bench.record(500)
    started = now()
    assert await bench.recorder.flush(2.0)
    assert now() - started < 0.1
    assert len(bench.server.listed) == 500
    started = now()
    assert await bench.recorder.flush(2.0)
    assert now() == started


async def test_recorder_flush_ends_at_its_timeout_when_the_server_hangs(bench: Bench):
    bench.wire.on("POST", EVENTS, Stall())
    bench.record(5)
    started = now()
    assert not await bench.recorder.flush(2.0)
    assert now() - started == pytest.approx(2.0)
    await bench.stop()
    assert bench.outcome("unsent") == 5


async def test_recorder_drops_waiting_events_when_the_lease_is_lost(bench: Bench):
    bench.record(5)
    bench.transport.fence("another one leads")
    assert await bench.recorder.flush(2.0)
    assert not bench.wire.requests
    assert bench.outcome("refused") == 5


async def test_recorder_has_no_timer_when_no_event_waits(bench: Bench):
    loop = asyncio.get_running_loop()
    await asyncio.sleep(1)
    assert not loop.timers


@pytest.mark.parametrize(
    "answer",
    [
        Reply.status(403, "Forbidden", details={"causes": [{"reason": "NamespaceTerminating"}]}),
        Reply.status(404, "NotFound", details={"kind": "namespaces", "name": "ns"}),
    ],
    ids=["terminating", "missing"],
)
async def test_recorder_drops_events_of_a_deleted_namespace_without_a_log_line(bench: Bench, answer: Reply):
    bench.wire.on("POST", EVENTS, answer)
    bench.record(1000)
    bench.recorder.event(widget(namespace="other"), "Normal", "Created", "x")
    with capture_logs() as lines:
        await asyncio.sleep(1)
    assert lines == []
    assert [each["metadata"]["namespace"] for each in bench.server.listed] == ["other"]
    assert len(bench.wire.sent("POST", EVENTS)) == 1
    assert bench.outcome("refused") == 1000
    bench.recorder.event(widget("w1"), "Normal", "Created", "x")
    await asyncio.sleep(1)
    assert len(bench.wire.sent("POST", EVENTS)) == 2, "the namespace may have been created again"


TOO_LARGE = Reply.status(500, "", "etcdserver: request is too large")


async def spoilt(bench: Bench, name: str, answer: Reply) -> None:
    """Store an Event about this object; the server then answers updates of the Event with `answer`."""
    bench.recorder.event(widget(name), "Normal", "Created", "x")
    await bench.settled()
    stored = bench.server.listed[-1]["metadata"]["name"]
    bench.wire.on("PATCH", f"{EVENTS}/{stored}", answer)


class TestEventRecorderRefusedUpdates:
    """Events that the server refuses to update, for example because another client made them too large."""

    async def test_event_that_the_server_refuses_to_update_delays_no_other_event(self, bench: Bench):
        for number in range(20):
            await spoilt(bench, f"w{number}", TOO_LARGE)
        bench.record(20)
        bench.recorder.event(widget("other"), "Normal", "Created", "x")
        await asyncio.sleep(0.9)
        assert bench.server.listed[-1]["involvedObject"]["name"] == "other"

    @pytest.mark.parametrize(
        "answer",
        [TOO_LARGE, Reply.status(413), Reply.status(422), Reply.status(409), Reply.status(400)],
        ids=["500", "413", "422", "409", "400"],
    )
    async def test_recorder_creates_a_second_event_when_the_server_refuses_to_update_the_first(
        self, bench: Bench, answer: Reply
    ):
        await spoilt(bench, "w", answer)
        for count in (2, 3):
            bench.recorder.event(widget("w"), "Normal", "Created", "x")
            first, second = await bench.settled()
            assert (first["count"], second["count"]) == (1, count)


class TestEventRecorderFailingServer:
    @pytest.fixture
    async def failing(self, bench: Bench) -> Bench:
        bench.wire.on("POST", "/api/v1/namespaces/odd/events", Reply.status(500, "InternalError"))
        bench.recorder.event(widget("w", namespace="odd"), "Normal", "Created", "x")
        await asyncio.sleep(0.1)
        return bench

    def attempts(self, bench: Bench) -> int:
        return len(bench.wire.sent("POST", "/api/v1/namespaces/odd/events"))

    async def test_failing_event_delays_no_other_event_and_is_retried_for_two_minutes(self, failing: Bench):
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

    async def test_failing_event_is_retried_with_the_count_of_its_repeats(self, failing: Bench):
        failing.recorder.event(widget("w", namespace="odd"), "Normal", "Created", "x")
        failing.wire.on("POST", "/api/v1/namespaces/odd/events", failing.server.answer)
        (event,) = await failing.settled()
        assert (event["count"], failing.outcome("merged")) == (2, 1)

    async def test_event_recurrences_during_failing_attempts_are_counted_and_cause_no_further_request(
        self, bench: Bench
    ):
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

    @pytest.mark.usefixtures("small")
    async def test_failing_event_is_dropped_first_when_the_recorder_is_full(self, bench: Bench):
        bench.wire.on("POST", "/api/v1/namespaces/odd/events", Reply.status(500, "InternalError"))
        for number in range(10):
            bench.recorder.event(widget(f"w{number}", namespace="odd"), "Normal", "Created", "x")
        await asyncio.sleep(0.5)
        for number in range(3):
            bench.recorder.event(widget(f"new{number}"), "Normal", "Created", "x")
        await asyncio.sleep(0.5)
        assert (len(bench.server.listed), bench.outcome("overflow")) == (3, 3)
        await bench.stop()
        assert bench.outcome("unsent") == 7
