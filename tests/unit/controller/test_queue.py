from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Any

import pytest

from manager.controller.queue import AGED_TURN, KeyBackoff, QueueItem, ReadyItems, WorkQueue
from manager.controller.reconciler import Priority
from manager.telemetry.metrics import Metrics
from manager.telemetry.runs import MOST_TRIGGERS, Trigger
from manager.util.loop import loop_factory
from tests.unit.controller.doubles import now

pytestmark = pytest.mark.virtual_time

Queue = WorkQueue[Any]


async def test_queue_item_has_the_highest_priority_and_the_earliest_triggers_up_to_a_limit(queue: Queue):
    triggers = [Trigger("event", float(number)) for number in range(MOST_TRIGGERS + 5)]
    queue.add("a")
    for trigger in triggers:
        queue.add("a", trigger=trigger, priority=Priority.HIGH)
    item = await queue.get()
    assert (item.key, item.priority, item.triggered) == ("a", Priority.HIGH, MOST_TRIGGERS + 6)
    assert item.triggers == tuple(triggers[:MOST_TRIGGERS])


async def test_queue_item_keeps_the_last_change_of_its_object_when_it_has_many_triggers(queue: Queue):
    children = [Trigger("event", source="owns", new=number) for number in range(MOST_TRIGGERS)]
    changed, deleted = (Trigger("event", change=each, source="for") for each in ("MODIFIED", "DELETED"))
    for trigger in (*children, changed, deleted, *children):
        queue.add("a", trigger=trigger)
    assert (await queue.get()).triggers == (*children[:-1], deleted)


@pytest.fixture
async def at_work(queue: Queue) -> Queue:
    """Return a queue whose only key is being reconciled."""
    queue.add("a")
    await queue.get()
    return queue


async def test_queue_discard_if_only_removes_a_key_when_every_cause_of_its_additions_is_given(at_work: Queue):
    at_work.add("a", cause="x")
    at_work.add("a", cause="y")
    assert at_work.discard_if_only("a", {"x", "y", "z"})
    at_work.add("a", after=3)
    at_work.done("a")
    assert len(at_work) == 0
    await asyncio.sleep(3.1)
    assert len(at_work) == 1, "the key can be added again"
    assert await at_work.get()
    at_work.add("a", cause="x")
    at_work.shut_down()
    assert not at_work.discard_if_only("a", {"x"})


X: dict[str, Any] = {"cause": "x"}


@pytest.mark.parametrize(
    "adds",
    [
        *([X, also] for also in ({"cause": "y"}, {}, {"priority": Priority.HIGH})),
        *([also, X] for also in ({"cause": "y"}, {}, {"priority": Priority.HIGH})),
        [{"after": 5}, X],  # X makes the delayed key ready at once
        [{"after": 5, **X}],
    ],
    ids=str,
)
async def test_queue_discard_if_only_keeps_a_key_with_another_cause_or_a_delayed_addition(
    at_work: Queue, adds: list[dict[str, Any]]
):
    for how in adds:
        at_work.add("a", **how)
    assert not at_work.discard_if_only("a", {"x"})
    at_work.done("a")
    await asyncio.sleep(adds[-1].get("after", 0))
    assert len(at_work) == 1


async def test_queue_discards_nothing_when_no_key_was_added_during_the_reconcile(queue: Queue):
    queue.add("a", cause="x")
    assert not queue.discard_if_only("a", {"x"})
    assert await queue.get()
    assert not queue.discard_if_only("a", {"x"})


def sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, {"name": "test", "controller": "test", **labels})


async def test_queue_metrics_count_waiting_keys_additions_and_retries(queue: Queue, metrics: Metrics):
    queue.add("a")
    queue.add("b")
    queue.add("c", priority=Priority.LOW)
    queue.add("d", after=1)
    depths = {label: sample(metrics, "workqueue_depth", priority=label) for label in ("-100", "0", "100")}
    assert depths == {"-100": 1, "0": 2, "100": 0}
    queue.add("a")
    assert sample(metrics, "workqueue_adds_total") == 3, "each key counts once, when it is ready"
    await asyncio.sleep(2)
    assert sample(metrics, "workqueue_adds_total") == 4
    assert sample(metrics, "workqueue_retries_total") == 0
    queue.add_rate_limited("a")
    assert sample(metrics, "workqueue_retries_total") == 1


async def test_queue_metrics_measure_waiting_time_and_work_time_of_keys(queue: Queue, metrics: Metrics):
    queue.add("a", after=1)
    await asyncio.sleep(3)
    await queue.get()
    await asyncio.sleep(2)
    queue.add("a")
    queue.add("b")
    await queue.get()
    await asyncio.sleep(3)
    assert sample(metrics, "workqueue_unfinished_work_seconds") == pytest.approx(5 + 3)
    assert sample(metrics, "workqueue_longest_running_processor_seconds") == pytest.approx(5)
    queue.done("b")
    queue.done("a")
    assert sample(metrics, "workqueue_unfinished_work_seconds") == 0
    assert sample(metrics, "workqueue_longest_running_processor_seconds") == 0
    assert sample(metrics, "workqueue_queue_duration_seconds_sum") == pytest.approx(2)
    assert sample(metrics, "workqueue_work_duration_seconds_sum") == pytest.approx(5 + 3)
    await queue.get()
    assert sample(metrics, "workqueue_queue_duration_seconds_sum") == pytest.approx(2 + 3)


async def test_queue_metrics_show_age_of_oldest_key_and_time_to_next_retry(queue: Queue, metrics: Metrics):

    def shown() -> list[float]:
        names = "oldest_key", "next_retry"
        return [round(sample(metrics, f"operator_manager_queue_{each}_seconds"), 3) for each in names]

    assert shown() == [0, 0]
    queue.add("soon", after=30)
    queue.add("later", after=60)
    queue.add("now")
    await asyncio.sleep(10)
    assert shown() == [10, 20]
    queue.add("soon")
    assert shown() == [10, 50]
    assert await queue.get() is not None
    await asyncio.sleep(1)
    assert shown() == [1, 49]


def test_key_backoff_doubles_a_delay_only_after_the_former_delay_has_passed(rng: random.Random):
    backoff = KeyBackoff[str](base=8, cap=100, jitter=0, rng=rng)
    assert backoff.next_delay("a", now=10) == 8
    assert [backoff.next_delay("a", now=now) for now in (11, 12, 17)] == [7, 6, 1]
    assert backoff.next_delay("a", now=18) == 16
    assert backoff.next_delay("b", now=18) == 8
    assert [backoff.retries(key) for key in "abc"] == [2, 1, 0]
    backoff.forget("b")
    backoff.forget("a")
    backoff.forget("never seen")
    assert (len(backoff), backoff.next_delay("a", now=18)) == (0, 8)


def test_key_backoff_defaults_to_delays_from_5_milliseconds_to_1000_seconds(rng: random.Random):
    backoff = KeyBackoff[str](rng=rng)
    now, delays = 0.0, []
    for _ in range(40):
        delays.append(backoff.next_delay("a", now=now))
        now += delays[-1]
    assert 0.005 <= delays[0] <= 0.0055
    assert 900 <= delays[-1] <= 1000


async def released(queue: Queue) -> list[tuple[str, float]]:
    """Return the keys that become ready within ten seconds, each with its time."""
    keys = []
    with suppress(TimeoutError):
        async with asyncio.timeout(10):
            while (item := await queue.get()) is not None:
                keys.append((item.key, now()))
                queue.done(item.key)
    return keys


async def test_queue_makes_delayed_keys_ready_on_time_with_a_single_timer(queue: Queue):
    loop = asyncio.get_running_loop()
    before = len(loop.timers)
    for key, after in [("c", 3.0), ("a", 1.0), ("b", 2.5)]:
        queue.add(key, after=after)
    assert (queue.delayed, len(loop.timers)) == (3, before + 1)
    assert await released(queue) == [("a", 1.0), ("b", 2.5), ("c", 3.0)]
    assert (queue.delayed, len(loop.timers)) == (0, before)


async def test_queue_frees_heap_entries_of_delayed_keys_that_became_ready_early(queue: Queue):
    queue.add("late", after=5)
    for number in range(10_000):
        queue.add("busy", after=3600.0 + number)
        queue.add("busy")
        await queue.get()
        queue.done("busy")
    assert queue.delayed == 1
    assert len(queue._heap) < 200
    assert await released(queue) == [("late", 5.0)]


def test_queue_makes_keys_ready_after_delays_below_one_millisecond_on_a_real_loop(
    metrics: Metrics, rng: random.Random
):
    # uvloop creates no timer for a delay below one millisecond.
    async def taken() -> list[str]:
        queue = WorkQueue[str]("test", metrics=metrics, backoff=KeyBackoff(rng=rng))
        for number, key in enumerate("cba"):
            queue.add(key, after=1e-6 * (3 - number))
        async with asyncio.timeout(10):
            return [item.key for _ in range(3) if (item := await queue.get())]

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        assert sorted(runner.run(taken())) == ["a", "b", "c"]


AGEING = 10.0


@pytest.fixture
def ready() -> ReadyItems[str]:
    return ReadyItems(ageing=AGEING)


def push(ready: ReadyItems[str], key: str, priority: Priority, *, since: float) -> None:
    item = QueueItem(key, priority)
    item.since = since
    ready.push(item)


def test_every_nth_pop_of_ready_items_returns_a_long_waiting_low_priority_item(ready: ReadyItems[str]):
    for number in range(1000):
        push(ready, f"low {number}", Priority.LOW, since=0)
    taken = []
    for number in range(10 * AGED_TURN):
        push(ready, f"normal {number}", Priority.NORMAL, since=AGEING)
        taken.append(ready.pop(now=AGEING).key)
    low = [key for key in taken if key.startswith("low")]
    assert low == [f"low {number}" for number in range(10)]


def test_ready_items_pop_returns_long_waiting_items_in_the_order_of_their_arrival(ready: ReadyItems[str]):
    push(ready, "low", Priority.LOW, since=1)
    push(ready, "normal", Priority.NORMAL, since=0)
    for number in range(2 * AGED_TURN):
        push(ready, f"high {number}", Priority.HIGH, since=50)
    taken = [ready.pop(now=50).key for _ in range(2 * AGED_TURN)]
    assert [key for key in taken if not key.startswith("high")] == ["normal", "low"]


async def test_queue_shut_down_ends_every_get_and_drops_waiting_and_new_keys(queue: Queue):
    queue.add("in progress")
    await queue.get()
    getting = [asyncio.create_task(queue.get()) for _ in range(4)]
    await asyncio.sleep(1)
    for number in range(100):
        queue.add(f"{number}", after=1 + number)
        queue.add_rate_limited(f"failed {number}")
    queue.paused = True
    queue.add("waiting")
    queue.shut_down()
    assert queue.is_shut_down
    assert not asyncio.get_running_loop().timers
    getting.pop().cancel()
    queue.add("a")
    queue.add("b", after=1)
    queue.add_rate_limited("c")
    queue.add("in progress")
    queue.done("in progress")
    assert await asyncio.gather(*getting) == [None, None, None]
    assert await queue.get() is None
    assert len(queue) == 0
    assert (queue._items, list(queue._getters), queue._in_progress) == ({}, [], {})
