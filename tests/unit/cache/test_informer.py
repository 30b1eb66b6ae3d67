from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from manager.api import ObjectKey
from manager.cache.informer import Informer
from manager.cache.record import CacheEvent, EventType
from manager.cache.reflector import Upstream
from manager.kube.errors import ProtocolError
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics
from tests.support.scripted_wire import Reply, ScriptedWire
from tests.unit.cache.objects import EventLog, encoded, moments, pod, pod_informer, running
from tests.unit.cache.server import Listed, PodServer
from tests.unit.conftest import LogLines

pytestmark = pytest.mark.virtual_time

Make = Callable[..., Informer]
A = ObjectKey("ns", "a")
DELETING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.fixture
async def make(transport: Transport, mapper: RestMapper, metrics: Metrics, rng: random.Random) -> Make:
    return partial(pod_informer, Upstream(transport, mapper, metrics, rng))


@pytest.fixture
async def informer(make: Make) -> Informer:
    return make()


class TestInformerRun:
    async def test_informer_notifies_a_subscriber_once_for_a_write_and_its_watch_event(
        self, informer: Informer, wire: ScriptedWire
    ):
        stream = Listed(10, ("b", 1), ("a", 2))
        PodServer(wire).on("stream", stream)
        told = EventLog()
        informer.subscribe(told)
        assert not informer.synced
        assert informer.covers("any")
        assert informer.problem == "pods: waiting for the first list"
        async with running(informer):
            await informer.wait_synced()
            assert informer.synced
            assert informer.problem is None
            assert [record.key.name for record in informer.list()] == ["a", "b"]
            assert told.take() == ["ADDED ns/b@1", "ADDED ns/a@2"]
            await asyncio.sleep(5)
            stream.event("ADDED", pod("c", 11))
            await moments()
            assert told.events[0].received == pytest.approx(5)
            informer.observe_write(encoded(pod("d", 12)))
            stream.event("ADDED", pod("d", 12))
            await moments()
        assert told.take() == ["ADDED ns/c@11", "ADDED ns/d@12"], "a write and its watch event are one change"

    async def test_informer_of_two_namespaces_has_two_watches(
        self, make: Make, wire: ScriptedWire, log_lines: LogLines
    ):
        informer = make(namespaces=("one", "two"))
        assert [informer.covers(each) for each in ("one", "three")] == [True, False]
        one, two = (PodServer(wire, f"/api/v1/namespaces/{name}/pods") for name in ("one", "two"))
        one.on("stream", Listed(10))
        two.on("stream", *[Reply.status(403, "Forbidden", "no")] * 2, Listed(10))
        async with running(informer):
            await moments()
            assert not informer.synced
            assert informer.problem == "pods: forbidden: no"
            await informer.wait_synced()
            assert informer.problem is None
            assert [each.state.value for each in informer._reflectors] == ["watch", "watch"]
        assert [line["namespace"] for line in log_lines if "synced" in line["event"]] == ["one", "two"]


class TestInformerSubscribe:
    async def test_subscriber_gets_existing_objects_unless_replay_is_off(self, informer: Informer):
        informer.observe_write(encoded(pod("a", 5)))
        told, without = EventLog(), EventLog()
        informer.subscribe(told)
        informer.subscribe(without, replay=False)
        assert [(event.type, event.initial) for event in told.events] == [(EventType.ADDED, True)]
        assert without.take() == []

    async def test_subscriber_failure_is_logged_and_other_subscribers_still_get_events(
        self, informer: Informer, metrics: Metrics, log_lines: LogLines
    ):
        def broken(event: CacheEvent) -> None:
            raise RuntimeError("no")

        told = EventLog()
        informer.subscribe(broken)
        informer.subscribe(told)
        informer.observe_write(encoded(pod("a", 5)))
        informer.observe_write(encoded(pod("a", 6)))
        assert told.take() == ["ADDED ns/a@5", "MODIFIED ns/a@6"]
        assert [(line["function"], line["object"]) for line in log_lines] == [("handler", "ns/a")]
        labels = {"kind": "pods", "part": "handler"}
        assert metrics.registry.get_sample_value("operator_manager_cache_failures_total", labels) == 2

    async def test_subscriber_gets_no_event_after_it_unsubscribes_in_its_handler(self, informer: Informer):
        told, other = EventLog(), EventLog()

        def leave(event: CacheEvent) -> None:
            told(event)
            cancel()

        cancel = informer.subscribe(leave)
        informer.subscribe(other)
        informer.observe_write(encoded(pod("a", 5)))
        informer.observe_write(encoded(pod("a", 6)))
        cancel()  # a repeated call has no effect
        assert told.take() == ["ADDED ns/a@5"]
        assert other.take() == ["ADDED ns/a@5", "MODIFIED ns/a@6"]

    async def test_subscriber_gets_the_metadata_before_and_after_each_change(self, informer: Informer):
        told, seen = EventLog(), list[int | None]()

        def look(event: CacheEvent) -> None:
            held = informer.get(event.key)
            seen.append(held and held.version)

        informer.subscribe(told)
        informer.subscribe(look)
        informer.observe_write(encoded(pod("a", 5, labels={"app": "web"})))
        informer.observe_write(encoded(pod("a", 6, labels={"app": "db"})))
        added, modified = told.events
        assert added.old_meta is None
        assert added.meta.labels == {"app": "web"}
        assert (modified.old_meta.labels, modified.meta.labels) == ({"app": "web"}, {"app": "db"})
        assert repr(modified) == "<MODIFIED ns/a 6>"
        informer.observe_delete(A, "a-1", b'{"kind":"Status"}')
        assert seen == [5, 6, None]


async def test_observe_write_and_observe_delete_raise_protocol_error_for_a_malformed_response(
    informer: Informer,
):
    with pytest.raises(ProtocolError):
        informer.observe_write(b"<html>")
    with pytest.raises(ProtocolError):
        informer.observe_delete(A, None, b"<html>")


@pytest.mark.parametrize(
    ("uid", "answer", "left"),
    [
        ("a-1", b'{"kind":"Status","status":"Success"}', None),
        (None, b'{"kind":"Status","details":{"uid":"a-1"}}', None),
        ("a-1", encoded(pod("a", 5)), None),
        ("a-1", encoded(pod("a", 6, **DELETING, finalizers=["x"])), 6),
        (None, b'{"kind":"Status"}', 5),
        ("a-0", b'{"kind":"Status"}', 5),
    ],
    ids=["status", "UID in the answer", "object", "finalizer", "no UID", "UID of an earlier object"],
)
async def test_observe_delete_removes_the_object_only_if_its_uid_is_known_and_no_finalizer_remains(
    informer: Informer, uid: str | None, answer: bytes, left: int | None
):
    informer.observe_write(encoded(pod("a", 5)))
    informer.observe_delete(A, uid, answer)
    held = informer.get(A)
    assert (held and held.version) == left
    assert held is None or held.deleting is (left == 6)


@pytest.mark.parametrize(
    ("more", "removed"),
    [
        ({}, False),
        (DELETING, True),
        ({**DELETING, "deletionGracePeriodSeconds": 0}, True),
        ({**DELETING, "deletionGracePeriodSeconds": 30}, False),
        ({**DELETING, "finalizers": ["example.com/wait"]}, False),
        ({"finalizers": ["example.com/wait"]}, False),
        ({**DELETING, "spec": {"finalizers": ["kubernetes"]}}, False),
        ({**DELETING, "spec": {"finalizers": []}}, True),
        ({**DELETING, "spec": None}, True),
        ({**DELETING, "spec": "a word"}, True),
    ],
)
async def test_observe_write_removes_a_terminating_object_without_finalizers_and_without_grace_period(
    informer: Informer, more: dict[str, Any], removed: bool
):
    informer.observe_write(encoded(pod("a", 1, finalizers=["x"])))
    informer.observe_write(encoded(pod("a", 2, **more)))
    assert (len(informer) == 0) is removed
