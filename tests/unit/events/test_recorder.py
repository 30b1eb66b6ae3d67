from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manager.api import ObjectMeta
from manager.events import ObjectReference
from tests.support.scripted_wire import Reply
from tests.unit.events.conftest import EVENTS, Bench, EventServer, Widget, widget

pytestmark = pytest.mark.virtual_time


async def test_an_event_is_stored_as_describe_shows_it(bench: Bench):
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


async def test_recording_returns_at_once_and_sends_nothing_by_itself(server: EventServer):
    bench = Bench(server)
    bench.recorder.event(widget(), "Normal", "Created", "x")
    await asyncio.sleep(60)
    assert not bench.wire.requests


async def test_events_about_an_object_without_a_namespace_are_kept_in_default(bench: Bench):
    bench.recorder.event(widget(namespace=""), "Normal", "Created", "x")
    (event,) = await bench.settled()
    assert event["metadata"]["namespace"] == "default"
    assert "namespace" not in event["involvedObject"]
    assert bench.wire.requests[0].path == "/api/v1/namespaces/default/events"


async def test_an_event_can_be_about_an_object_that_is_not_at_hand(bench: Bench):
    lease = ObjectReference("coordination.k8s.io/v1", "Lease", "ns", "election")
    bench.recorder.event(lease, "Normal", "LeaderElection", "x became leader")
    (event,) = await bench.settled()
    assert event["involvedObject"] == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "namespace": "ns",
        "name": "election",
    }


async def test_recorder_increments_the_count_of_a_repeated_event(bench: Bench):
    bench.recorder.event(widget(), "Warning", "Failed", "no")
    await asyncio.sleep(10)
    bench.recorder.event(widget(version="6"), "Warning", "Failed", "no")
    (event,) = await bench.settled()
    assert event["count"] == 2
    assert event["firstTimestamp"] == "2027-01-15T08:00:00Z"
    assert event["lastTimestamp"] == "2027-01-15T08:00:10Z"
    assert [sent.method for sent in bench.wire.requests] == ["POST", "PATCH"]
    assert bench.wire.requests[1].json() == {
        "count": 2,
        "lastTimestamp": "2027-01-15T08:00:10Z",
        "message": "no",
    }
    assert (bench.outcome("created"), bench.outcome("updated")) == (1, 1)


async def test_recorder_merges_repeats_into_an_event_that_waits(bench: Bench):
    for _ in range(20):
        bench.recorder.event(widget(), "Warning", "Failed", "no")
    (event,) = await bench.settled()
    assert event["count"] == 20
    assert len(bench.wire.requests) == 1
    assert bench.outcome("merged") == 19


@pytest.mark.parametrize(
    "other",
    [
        (widget("v"), "Warning", "Failed", "no"),
        (widget(), "Normal", "Failed", "no"),
        (widget(), "Warning", "Refused", "no"),
        (widget(), "Warning", "Failed", "never"),
    ],
)
async def test_events_that_differ_are_kept_apart(bench: Bench, other: tuple[Any, ...]):
    bench.recorder.event(widget(), "Warning", "Failed", "no")
    bench.recorder.event(*other)
    assert [event["count"] for event in await bench.settled()] == [1, 1]


async def test_an_object_made_anew_under_the_same_name_has_events_of_its_own(bench: Bench):
    bench.recorder.event(widget(), "Normal", "Created", "x")
    again = Widget(metadata=ObjectMeta(name="w", namespace="ns", uid="another"))
    bench.recorder.event(again, "Normal", "Created", "x")
    assert [event["involvedObject"]["uid"] for event in await bench.settled()] == ["uid-of-w", "another"]


async def test_the_tenth_of_many_similar_events_and_further_ones_are_combined(bench: Bench):
    for number in range(15):
        bench.recorder.event(widget(), "Warning", "Failed", f"attempt {number}")
    events = await bench.settled()
    assert [event["message"] for event in events[:9]] == [f"attempt {number}" for number in range(9)]
    assert len(events) == 10
    assert events[9]["message"] == "(combined from similar events): attempt 14"
    assert events[9]["count"] == 6


async def test_recorder_stops_combining_similar_events_after_ten_quiet_minutes(bench: Bench):
    for number in range(12):
        bench.recorder.event(widget(), "Warning", "Failed", f"attempt {number}")
    await asyncio.sleep(601)
    bench.recorder.event(widget(), "Warning", "Failed", "attempt 99")
    assert (await bench.settled())[-1]["message"] == "attempt 99"


async def test_an_object_with_very_many_events_is_cut_off_and_its_count_stays_true(bench: Bench):
    for number in range(100):
        bench.recorder.event(widget(), "Warning", "Failed", "no" if number % 2 else f"reason {number % 6}")
        await asyncio.sleep(1)
    requests = len(bench.wire.requests)
    assert requests == 25
    assert bench.outcome("filtered") == 75
    await asyncio.sleep(300)
    bench.recorder.event(widget(), "Warning", "Failed", "no")
    events = await bench.settled()
    assert len(bench.wire.requests) == requests + 1
    assert next(event for event in events if event["message"] == "no")["count"] == 51


async def test_recorder_keeps_events_of_other_objects_when_one_is_noisy(bench: Bench):
    for _ in range(100):
        bench.recorder.event(widget(), "Warning", "Failed", "no")
        await asyncio.sleep(1)
    bench.recorder.event(widget("quiet"), "Normal", "Created", "x")
    assert (await bench.settled())[-1]["involvedObject"]["name"] == "quiet"


async def test_long_texts_are_cut_to_what_the_server_takes(bench: Bench):
    bench.recorder.event(widget(), "Normal", "R" * 200, "é" * 1000)
    (event,) = await bench.settled()
    message = event["message"]
    assert len(message.encode()) <= 1024
    assert message.endswith("é…")
    assert len(event["reason"].encode()) <= 128


async def test_a_combined_message_stays_within_the_bound_too(bench: Bench):
    for number in range(10):
        bench.recorder.event(widget(), "Warning", "Failed", f"{number} " + "x" * 1022)
    assert all(len(event["message"].encode()) <= 1024 for event in await bench.settled())


async def test_a_text_that_is_no_unicode_is_sent_all_the_same(bench: Bench):
    bench.recorder.event(widget(), "Normal", "Created", "bad \udc80 byte")
    (event,) = await bench.settled()
    assert event["message"] == "bad ? byte"


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
