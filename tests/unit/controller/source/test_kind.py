from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest

from manager.cache import CacheEvent
from manager.controller.predicate import all_of, desired_state_changed, label_changed
from manager.controller.queue import WorkQueue
from manager.controller.reconciler import Priority, Request
from manager.controller.source import KindSource, Source, enqueue_object
from manager.telemetry.metrics import Metrics
from tests.support.effort import turns_of_others
from tests.unit.cache.objects import Pod
from tests.unit.controller.doubles import turns
from tests.unit.controller.source.conftest import MakeQueue
from tests.unit.controller.watched import Watched, offline_cache

pytestmark = pytest.mark.virtual_time


@pytest.fixture
def pods(metrics: Metrics) -> Watched:
    return Watched(offline_cache(metrics), Pod)


@asynccontextmanager
async def running(source: Source, queue: WorkQueue[Request]) -> AsyncIterator[None]:
    task = asyncio.create_task(source.run(queue))
    await turns()
    yield
    task.cancel()
    await asyncio.wait([task])


async def drain(queue: WorkQueue[Request]) -> list[tuple[str, int, float | None]]:
    items = []
    while len(queue):
        item = await queue.get()
        assert item is not None
        queue.done(item.key)
        arrived = next((trigger.at for trigger in item.triggers if trigger.why == "event"), None)
        items.append((item.key.name, item.priority, arrived))
    return items


async def test_kind_source_enqueues_present_objects_at_low_and_events_at_normal_priority(
    pods: Watched, make_queue: MakeQueue
):
    queue = make_queue()
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


@pytest.mark.parametrize(("count", "size"), [(20, 70_000), (1000, 1_400)])
async def test_kind_source_yields_to_the_loop_while_it_enqueues_present_objects(
    pods: Watched, make_queue: MakeQueue, count: int, size: int
):
    queue = make_queue()
    pods.listed(*(f"p{number}" for number in range(count)), annotations={"filler": "x" * size})
    pods.synced()

    async def asked() -> None:
        async with running(KindSource(pods.informer, enqueue_object), queue):
            for _ in range(count):
                await queue.get()

    assert await turns_of_others(asked()) >= 20


async def test_kind_source_enqueues_a_late_first_list_at_low_priority(pods: Watched, make_queue: MakeQueue):
    queue = make_queue()
    source = KindSource(pods.informer, enqueue_object)
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
        assert await drain(queue) == [("a", Priority.LOW, None)]


async def test_kind_source_raises_the_priority_of_a_present_object_on_change(
    pods: Watched, make_queue: MakeQueue
):
    queue = make_queue()
    pods.listed("a", "b")
    pods.synced()
    async with running(KindSource(pods.informer, enqueue_object), queue):
        pods.put("b", generation=2)
        assert [name for name, _, _ in await drain(queue)] == ["b", "a"]


async def test_kind_source_enqueues_deletions(pods: Watched, make_queue: MakeQueue):
    queue = make_queue()
    pods.listed("a")
    pods.synced()
    async with running(KindSource(pods.informer, enqueue_object), queue):
        await drain(queue)
        pods.delete("a")
        assert [name for name, _, _ in await drain(queue)] == ["a"]


async def test_kind_source_enqueues_only_events_that_every_predicate_passes(
    pods: Watched, make_queue: MakeQueue
):
    queue = make_queue()
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


async def test_kind_source_applies_its_predicates_to_initial_events(pods: Watched, make_queue: MakeQueue):
    queue = make_queue()
    pods.listed("a")
    pods.synced()
    nothing = KindSource(pods.informer, enqueue_object, predicates=[all_of(lambda event: not event.initial)])
    async with running(nothing, queue):
        assert await drain(queue) == []


async def test_kind_source_without_a_handler_enqueues_nothing_and_is_waited_for(
    pods: Watched, make_queue: MakeQueue
):
    queue = make_queue()
    source = KindSource(pods.informer, None)
    async with running(source, queue):
        syncing = asyncio.create_task(source.wait_synced())
        await turns()
        assert not syncing.done()
        pods.listed("a")
        pods.synced()
        await syncing
        assert len(queue) == 0
        assert pods.informer._handlers == []


async def test_kind_source_unsubscribes_when_it_is_cancelled(pods: Watched, make_queue: MakeQueue):
    queue = make_queue()
    async with running(KindSource(pods.informer, enqueue_object), queue):
        assert len(pods.informer._handlers) == 1
    assert pods.informer._handlers == []
    pods.put("a")
    assert len(queue) == 0


async def test_kind_source_enqueues_a_large_cache_in_portions_with_changes_between(
    pods: Watched, make_queue: MakeQueue
):
    queue = make_queue()
    pods.listed(*(f"pod-{number:04}" for number in range(2000)))
    pods.synced()
    task = asyncio.create_task(KindSource(pods.informer, enqueue_object).run(queue))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert 0 < len(queue) < 1000
    pods.put("pod-1999", generation=2)
    first = await queue.get()
    assert (first.key.name, first.priority) == ("pod-1999", Priority.NORMAL)
    pods.delete("pod-1998")
    await turns(20)
    assert len(queue) == 1999
    task.cancel()
    await asyncio.wait([task])


def failures(metrics: Metrics, part: str) -> float | None:
    labels = {"kind": "pods", "part": part}
    return metrics.registry.get_sample_value("operator_manager_cache_failures_total", labels)


class Moody:
    """Fails on the objects named, for as long as they are."""

    def __init__(self, *bad: str) -> None:
        self.bad = set(bad)
        self.asked: list[CacheEvent] = []

    def __call__(self, event: CacheEvent) -> Iterable[Request]:
        self.asked.append(event)
        if event.key.name in self.bad:
            raise RuntimeError("moody")
        return enqueue_object(event)


async def test_kind_source_enqueues_an_event_when_a_predicate_raises(
    pods: Watched, make_queue: MakeQueue, metrics: Metrics
):
    def broken(event: CacheEvent) -> bool:
        raise RuntimeError("broken")

    queue = make_queue()
    pods.synced()
    assert failures(metrics, "predicate") == 0  # there from the start, for the alert to see the first
    async with running(KindSource(pods.informer, enqueue_object, predicates=[broken]), queue):
        pods.put("a")
        assert await drain(queue) == [("a", Priority.NORMAL, 0)]
    assert failures(metrics, "predicate") == 1


async def test_kind_source_retries_a_failed_handler_until_it_succeeds(
    pods: Watched, make_queue: MakeQueue, metrics: Metrics
):
    queue, handler = make_queue(), Moody("a", "listed")
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


async def test_kind_source_merges_changes_while_its_handler_fails(pods: Watched, make_queue: MakeQueue):
    queue, handler = make_queue(), Moody("a")
    pods.put("a", labels={"step": "1"})
    pods.synced()
    async with running(KindSource(pods.informer, handler, predicates=[label_changed]), queue):
        handler.asked.clear()
        pods.put("a", labels={"step": "2"})
        handler.bad.clear()
        # No label differs, but the earlier change of a label has had no event yet.
        pods.put("a", labels={"step": "2"}, annotations={"x": "y"})
        assert await drain(queue) != []
        event = handler.asked[-1]
        assert (event.old, event.meta.labels) == (None, {"step": "2"})  # also the replay had failed
        handler.bad.add("a")
        pods.put("a", labels={"step": "3"})
        pods.delete("a")
        handler.bad.clear()
        await asyncio.sleep(2)
        event = handler.asked[-1]
        assert event.new is None
        assert event.old is not None
        assert event.old.meta().labels == {"step": "2"}
        assert [name for name, *_ in await drain(queue)] == ["a"]


async def test_kind_source_gives_up_a_handler_that_never_succeeds(
    pods: Watched, make_queue: MakeQueue, metrics: Metrics
):
    queue, handler = make_queue(), Moody("a")
    pods.synced()
    async with running(KindSource(pods.informer, handler), queue):
        pods.put("a")
        await asyncio.sleep(3600)
        assert failures(metrics, "handler") == len(handler.asked) == 13
        await asyncio.sleep(36_000)
        assert len(handler.asked) == 13


async def test_kind_source_retries_no_failed_handler_after_it_has_ended(pods: Watched, make_queue: MakeQueue):
    queue, handler = make_queue(), Moody("a")
    pods.synced()
    async with running(KindSource(pods.informer, handler), queue):
        pods.put("a")
    await asyncio.sleep(3600)
    assert len(handler.asked) == 1
