from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import msgspec
import pytest

from manager.cache import CacheEvent, Meta, Record
from manager.controller.queue import WorkQueue
from manager.controller.reconciler import Priority, Request
from manager.controller.source import (
    ChannelSource,
    Handler,
    KindSource,
    Predicate,
    Source,
    TickerSource,
    all_of,
    annotation_changed,
    any_of,
    created_or_deleted,
    desired_state_changed,
    enqueue_mapped,
    enqueue_object,
    enqueue_owner,
    generation_changed,
    label_changed,
    not_,
    presence_changed,
    status_changed,
    termination_started,
)
from manager.telemetry.metrics import Metrics
from tests.unit.cache.objects import Pod
from tests.unit.controller.doubles import (
    Cluster,
    Foo,
    Watched,
    added,
    changed,
    now,
    offline_cache,
    owner,
    removed,
    turns,
)

pytestmark = pytest.mark.virtual_time


Queue = WorkQueue[Request]
NOW = "2026-11-21T10:00:00Z"
STATUS = changed()
ADDED_OR_REMOVED = {"added", "removed", "added terminating", "removed terminating"}
EVENTS = {
    "status": STATUS,
    "spec": changed(generation=2),
    "labels": changed(labels={"a": "b"}),
    "annotations": changed(annotations={"a": "b"}),
    "finalizers": changed(finalizers=["x"]),
    "terminating": changed(deletionTimestamp=NOW),
    "still terminating": changed({"deletionTimestamp": NOW}, finalizers=[]),
    "finalizer removed": changed({"deletionTimestamp": NOW, "finalizers": ["a", "b"]}, finalizers=["b"]),
    "kind without generation": changed({"generation": 0}),
    "replaced": changed(uid="another"),
    "added": added(),
    "removed": removed(),
    "added terminating": added(deletionTimestamp=NOW),
    "removed terminating": removed(deletionTimestamp=NOW),
}


@pytest.mark.parametrize(
    ("predicate", "passing"),
    [
        (created_or_deleted, ADDED_OR_REMOVED | {"replaced", "terminating"}),
        (termination_started, {"terminating"}),
        (presence_changed, {"added", "removed", "replaced", "terminating"}),
        (generation_changed, ADDED_OR_REMOVED | {"spec", "replaced", "kind without generation"}),
        (label_changed, ADDED_OR_REMOVED | {"labels"}),
        (annotation_changed, ADDED_OR_REMOVED | {"annotations"}),
        (desired_state_changed, set(EVENTS) - {"status", "still terminating"}),
        (not_(label_changed), set(EVENTS) - ADDED_OR_REMOVED - {"labels"}),
        (any_of(label_changed, termination_started), ADDED_OR_REMOVED | {"labels", "terminating"}),
        (all_of(label_changed, generation_changed), ADDED_OR_REMOVED),
        (any_of(), set()),
        (all_of(), set(EVENTS)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_event_predicate_accepts_exactly_the_kinds_of_change_listed_for_it(
    predicate: Predicate, passing: set[str]
):
    assert {name for name, event in EVENTS.items() if predicate(event)} == passing


def test_status_changed_predicate_accepts_only_events_whose_status_differs():
    def with_status(record: Record, status: bytes) -> Record:
        return msgspec.structs.replace(record, raw=record.raw[:-1] + b',"status":%b}' % status)

    events = [(b'{"a":1}', b'{"a":1}'), (b'{"a":1}', b'{"a":2}'), (b'{"a":1}', b"{}")]
    passing = [
        status_changed(CacheEvent(with_status(STATUS.old, a), with_status(STATUS.new, b))) for a, b in events
    ]
    assert passing == [False, True, True]
    assert status_changed(CacheEvent(with_status(STATUS.old, b"{}"), STATUS.new))
    assert not any(map(status_changed, EVENTS.values()))


def names(handler: Handler, event: CacheEvent) -> list[str]:
    return [str(request) for request in handler(event)]


def by_label(pod: Meta) -> Iterable[Request]:
    if name := pod.labels.get("foo"):
        yield Request(pod.namespace, name)
        yield Request(pod.namespace, name)


FOO, OLD = owner("foo-1"), [owner("old")]


@pytest.mark.parametrize(
    ("event", "enqueued"),
    [
        (added(ownerReferences=[FOO]), ["ns/foo-1"]),
        (removed(ownerReferences=[FOO]), ["ns/foo-1"]),
        (added(ownerReferences=[{**FOO, "apiVersion": "tutorial.my.domain/v1alpha1"}]), ["ns/foo-1"]),
        (changed({"ownerReferences": [FOO]}, labels={"a": "b"}), ["ns/foo-1"]),
        (changed({"ownerReferences": OLD}, ownerReferences=[owner("new")]), ["ns/new", "ns/old"]),
        (changed({"ownerReferences": OLD}, ownerReferences=[]), ["ns/old"]),
        *[
            (added(ownerReferences=[owner(**other)]), [])
            for other in ({"controller": False}, {"kind": "Bar"}, {"group": "other.domain/"}, {"group": ""})
        ],
        (added(), []),
    ],
)
def test_enqueue_owner_enqueues_current_and_former_controller_owners(event: CacheEvent, enqueued: list[str]):
    assert names(enqueue_owner(Foo), event) == enqueued


def test_enqueue_owner_enqueues_a_cluster_scoped_owner_with_an_empty_namespace():
    reference = owner("prod", kind="Cluster", group="example.com/")
    assert names(enqueue_owner(Cluster), added(ownerReferences=[reference])) == ["prod"]


def test_enqueue_mapped_enqueues_objects_mapped_from_the_old_and_the_new_state():
    handler = enqueue_mapped(by_label)
    assert names(handler, added(labels={"foo": "x"})) == ["ns/x"]
    assert names(handler, removed(labels={"foo": "x"})) == ["ns/x"]
    assert names(handler, changed({"labels": {"foo": "x"}}, labels={"foo": "y"})) == ["ns/y", "ns/x"]
    assert names(handler, changed({"labels": {"foo": "x"}}, generation=2)) == ["ns/x"]
    assert names(handler, changed({"labels": {"foo": "x"}}, labels={})) == ["ns/x"]
    assert names(handler, added()) == []


@pytest.fixture
def pods(metrics: Metrics) -> Watched:
    return Watched(offline_cache(metrics), Pod)


@asynccontextmanager
async def running(source: Source, queue: Queue) -> AsyncIterator[None]:
    task = asyncio.create_task(source.run(queue))
    await turns()
    yield
    task.cancel()
    await asyncio.wait([task])


async def drain(queue: Queue) -> list[tuple[str, int, float | None]]:
    items = []
    while len(queue):
        item = await queue.get()
        queue.done(item.key)
        arrived = next((trigger.at for trigger in item.triggers if trigger.why == "event"), None)
        items.append((item.key.name, item.priority, arrived))
    return items


async def test_kind_source_enqueues_existing_objects_with_low_priority_and_events_with_normal_priority(
    pods: Watched, queue: Queue
):
    pods.listed("a", "b")
    pods.synced()
    await asyncio.sleep(3)
    async with running(KindSource(pods.informer, enqueue_object), queue):
        await asyncio.sleep(4)
        pods.put("c")
        assert await drain(queue) == [
            ("c", Priority.NORMAL, 7),
            ("a", Priority.LOW, None),
            ("b", Priority.LOW, None),
        ]
        assert len(pods.informer._handlers) == 1
    assert pods.informer._handlers == []
    pods.put("d")
    assert len(queue) == 0


@pytest.mark.parametrize("handler", [enqueue_object, None])
async def test_kind_source_waits_for_the_first_list_and_enqueues_its_objects_only_with_a_handler(
    pods: Watched, queue: Queue, handler: Handler | None
):
    source = KindSource(pods.informer, handler)
    async with running(source, queue):
        syncing = asyncio.create_task(source.wait_synced())
        await turns()
        pods.listed("a")
        assert source.problem == "pods: waiting for the first list"
        await turns()
        assert not syncing.done()
        pods.synced()
        await syncing
        assert source.problem is None
        assert await drain(queue) == ([("a", Priority.LOW, None)] if handler else [])
        assert len(pods.informer._handlers) == (handler is not None)


async def test_kind_source_enqueues_only_events_that_all_predicates_accept(pods: Watched, queue: Queue):
    pods.listed("a")
    pods.synced()
    source = KindSource(pods.informer, enqueue_object, predicates=[desired_state_changed, label_changed])
    async with running(source, queue):
        await drain(queue)
        pods.put("a")
        pods.put("a", generation=2)
        assert await drain(queue) == []
        pods.put("a", generation=2, labels={"x": "y"})
        assert [name for name, _, _ in await drain(queue)] == ["a"]
    nothing = KindSource(pods.informer, enqueue_object, predicates=[all_of(lambda event: not event.initial)])
    async with running(nothing, queue):
        assert await drain(queue) == []


async def test_kind_source_enqueues_new_events_during_its_scan_of_a_large_cache(pods: Watched, queue: Queue):
    pods.listed(*(f"pod-{number:04}" for number in range(2000)), annotations={"filler": "x" * 700})
    pods.synced()
    task = asyncio.create_task(KindSource(pods.informer, enqueue_object).run(queue))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert 0 < len(queue) < 1000
    pods.put("pod-1999", generation=2)
    first = await queue.get()
    assert (first.key.name, first.priority) == ("pod-1999", Priority.NORMAL)
    pods.delete("pod-1998")
    await turns(100)
    assert len(queue) == 1999
    task.cancel()
    await asyncio.wait([task])


def failures(metrics: Metrics, part: str) -> float | None:
    labels = {"kind": "pods", "part": part}
    return metrics.registry.get_sample_value("operator_manager_cache_failures_total", labels)


class Moody:
    """Handler that raises an error for objects whose names are in `bad`."""

    def __init__(self, *bad: str) -> None:
        self.bad = set(bad)
        self.asked: list[CacheEvent] = []

    def __call__(self, event: CacheEvent) -> Iterable[Request]:
        self.asked.append(event)
        if event.key.name in self.bad:
            raise RuntimeError("moody")
        return enqueue_object(event)


async def test_kind_source_enqueues_an_event_when_a_predicate_raises(
    pods: Watched, queue: Queue, metrics: Metrics
):
    def broken(event: CacheEvent) -> bool:
        raise RuntimeError("broken")

    pods.synced()
    assert failures(metrics, "predicate") == 0, "an alert needs the metric before the first failure"
    async with running(KindSource(pods.informer, enqueue_object, predicates=[broken]), queue):
        pods.put("a")
        assert await drain(queue) == [("a", Priority.NORMAL, 0)]
    assert failures(metrics, "predicate") == 1


async def test_kind_source_retries_a_handler_until_it_succeeds(pods: Watched, queue: Queue, metrics: Metrics):
    handler = Moody("a", "listed")
    pods.listed("listed")
    pods.synced()
    async with running(KindSource(pods.informer, handler), queue):
        pods.put("a")
        pods.put("b")
        assert await drain(queue) == [("b", Priority.NORMAL, 0)]
        await asyncio.sleep(10)
        handler.bad.clear()
        await asyncio.sleep(10)
        assert sorted(await drain(queue)) == [("a", Priority.NORMAL, 0), ("listed", Priority.LOW, None)]
        asked = len(handler.asked)
        await asyncio.sleep(5000)
        assert len(handler.asked) == asked
    assert failures(metrics, "handler") == 8  # at 0, 1, 3 and 7 s


async def test_kind_source_retries_a_handler_with_merged_changes_of_the_object(pods: Watched, queue: Queue):
    handler = Moody("a")
    pods.put("a", labels={"step": "1"})
    pods.synced()
    async with running(KindSource(pods.informer, handler, predicates=[label_changed]), queue):
        handler.asked.clear()
        pods.put("a", labels={"step": "2"})
        handler.bad.clear()
        # No label changes here, but the handler has not handled the earlier label change.
        pods.put("a", labels={"step": "2"}, annotations={"x": "y"})
        assert await drain(queue) != []
        event = handler.asked[-1]
        assert (event.old, event.meta.labels) == (None, {"step": "2"})  # the initial replay failed too
        handler.bad.add("a")
        pods.put("a", labels={"step": "3"})
        pods.delete("a")
        handler.bad.clear()
        await asyncio.sleep(2)
        event = handler.asked[-1]
        assert event.new is None
        assert event.old.meta().labels == {"step": "2"}
        assert [name for name, *_ in await drain(queue)] == ["a"]


async def test_kind_source_retries_no_handler_after_14_failures_or_after_the_source_stops(
    pods: Watched, queue: Queue, metrics: Metrics
):
    handler = Moody("a")
    pods.synced()
    async with running(KindSource(pods.informer, handler), queue):
        pods.put("a")
    await asyncio.sleep(3600)
    assert len(handler.asked) == 1
    async with running(KindSource(pods.informer, handler), queue):
        await asyncio.sleep(3600)
        assert failures(metrics, "handler") == len(handler.asked) == 14
        await asyncio.sleep(36_000)
        assert len(handler.asked) == 14


async def test_ticker_spreads_its_low_priority_requests_over_a_tenth_of_the_interval(
    queue: Queue, rng: random.Random
):
    many = [Request("ns", f"{number}") for number in range(1000)]
    async with running(TickerSource(600, lambda: many, jitter=0, rng=rng), queue):
        for tick in (600, 1200):
            times = []
            for request in many:
                item = await queue.get()
                assert (item.key, item.priority) == (request, Priority.LOW)
                queue.done(item.key)
                times.append(now())
            assert times[0] == tick
            assert 55 <= times[-1] - times[0] < 60
            assert max(later - earlier for earlier, later in itertools.pairwise(times)) < 0.1


async def test_ticker_varies_its_interval_by_the_jitter(rng: random.Random, queue: Queue):
    ticks: list[float] = []

    def note() -> list[Request]:
        ticks.append(now())
        return []

    async with running(TickerSource(100, note, jitter=0.2, rng=rng), queue):
        await asyncio.sleep(5000)
    intervals = [later - earlier for earlier, later in zip([0.0, *ticks], ticks, strict=False)]
    assert min(intervals) >= 79.9
    assert max(intervals) <= 120.1
    assert max(intervals) - min(intervals) > 20


async def test_channel_source_merges_requests_sent_before_start_and_keeps_the_highest_priority(queue: Queue):
    source = ChannelSource()
    await source.wait_synced()
    source.send(Request("ns", "a"), priority=Priority.LOW)
    source.send(Request("ns", "b"))
    source.send(Request("ns", "a"), priority=Priority.HIGH)
    source.send(Request("ns", "b"), priority=Priority.LOW)
    async with running(source, queue):
        assert queue.depth(Priority.HIGH) == 1
        assert queue.depth(Priority.NORMAL) == 1
        assert queue.depth(Priority.LOW) == 0
        source.send(Request("ns", "d"), priority=Priority.LOW)
        assert queue.depth(Priority.LOW) == 1
    source.send(Request("ns", "c"))
    assert len(queue) == 3
