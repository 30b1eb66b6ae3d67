"""Properties of the queue outside of its model: misuse, back-off, withdrawn requests, metrics."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manager.controller.queue import WorkQueue
from manager.controller.reconciler import Priority
from manager.telemetry.metrics import Metrics
from manager.telemetry.runs import MOST_TRIGGERS, Trigger
from tests.unit.controller.doubles import Numbers
from tests.unit.controller.queue.conftest import MakeQueue

pytestmark = pytest.mark.virtual_time


def now() -> float:
    return round(asyncio.get_running_loop().time(), 3)


async def test_done_raises_key_error_for_a_key_that_is_not_in_progress(make_queue: MakeQueue):
    queue = make_queue()
    queue.add("a")
    with pytest.raises(KeyError):
        queue.done("a")


async def test_rate_limited_adds_wait_longer_each_time_until_forgotten(make_queue: MakeQueue):
    queue = make_queue()
    delays = []
    for _ in range(4):
        delays.append(queue.add_rate_limited("a"))
        await asyncio.sleep(delays[-1])
    assert delays == pytest.approx([0.005, 0.01, 0.02, 0.04])
    assert queue.retries("a") == 4
    queue.forget("a")
    assert queue.retries("a") == 0
    assert queue.add_rate_limited("a") == 0.005


async def test_queue_item_has_its_priority_and_first_triggers(make_queue: MakeQueue):
    queue = make_queue()
    triggers = [Trigger("event", float(number)) for number in range(MOST_TRIGGERS + 5)]
    queue.add("a")
    for trigger in triggers:
        queue.add("a", trigger=trigger, priority=Priority.HIGH)
    item = await queue.get()
    assert (item.key, item.priority, item.triggered) == ("a", Priority.HIGH, MOST_TRIGGERS + 6)
    assert item.triggers == tuple(triggers[:MOST_TRIGGERS])


async def test_queue_numbers_count_every_key_in_one_place(make_queue: MakeQueue):
    queue = make_queue()
    queue.add("in progress")
    await queue.get()
    queue.add("dirty", priority=Priority.HIGH)
    await queue.get()
    queue.add("dirty")
    queue.add("ready", priority=Priority.LOW)
    queue.add("delayed", after=60)
    queue.add_rate_limited("failed")
    await asyncio.sleep(2)
    statistics = Numbers(queue)
    assert statistics.ready == {Priority.LOW: 1, Priority.NORMAL: 1, Priority.HIGH: 0}
    assert (statistics.delayed, statistics.processing, statistics.dirty) == (1, 2, 1)
    assert (statistics.backing_off, statistics.idle_getters) == (1, 0)
    assert queue.unfinished() == pytest.approx(4)
    assert queue.longest_running() == pytest.approx(2)


async def at_work(make_queue: MakeQueue) -> WorkQueue[str]:
    """Return a queue whose only key is in progress."""
    queue = make_queue()
    queue.add("a")
    await queue.get()
    return queue


async def test_disregard_drops_a_key_that_only_these_causes_added(make_queue: MakeQueue):
    queue = await at_work(make_queue)
    queue.add("a", cause="x")
    queue.add("a", cause="y")
    assert queue.discard_if_only("a", {"x", "y", "z"})
    queue.done("a")
    assert len(queue) == 0


@pytest.mark.parametrize("also", [{"cause": "y"}, {}, {"priority": Priority.HIGH}])
async def test_disregard_keeps_a_key_that_another_cause_added_too(
    make_queue: MakeQueue, also: dict[str, Any]
):
    for order in (({"cause": "x"}, also), (also, {"cause": "x"})):
        queue = await at_work(make_queue)
        for how in order:
            queue.add("a", **how)
        assert not queue.discard_if_only("a", {"x"})
        queue.done("a")
        assert len(queue) == 1


async def test_disregard_returns_false_when_nobody_added_the_key(make_queue: MakeQueue):
    queue = await at_work(make_queue)
    assert not queue.discard_if_only("a", {"x"})


async def test_disregard_keeps_a_key_that_was_also_added_for_later(make_queue: MakeQueue):
    queue = await at_work(make_queue)
    queue.add("a", after=5)
    queue.add("a", cause="x")  # which makes it due at once
    assert not queue.discard_if_only("a", {"x"})
    queue.done("a")
    assert len(queue) == 1


async def test_disregard_keeps_a_key_added_with_a_delay(make_queue: MakeQueue):
    queue = await at_work(make_queue)
    queue.add("a", after=5, cause="x")
    assert not queue.discard_if_only("a", {"x"})
    queue.done("a")
    await asyncio.sleep(5.1)
    assert len(queue) == 1


async def test_disregard_keeps_a_key_that_is_not_in_progress(make_queue: MakeQueue):
    queue = make_queue()
    queue.add("a", cause="x")
    assert not queue.discard_if_only("a", {"x"})
    assert await queue.get()
    queue.done("a")


async def test_disregard_lets_the_key_be_added_again(make_queue: MakeQueue):
    queue = await at_work(make_queue)
    queue.add("a", cause="x")
    assert queue.discard_if_only("a", {"x"})
    queue.add("a", after=3)
    queue.done("a")
    await asyncio.sleep(3.1)
    assert len(queue) == 1


async def test_disregard_returns_false_after_shut_down(make_queue: MakeQueue):
    queue = await at_work(make_queue)
    queue.add("a", cause="x")
    queue.shut_down()
    assert not queue.discard_if_only("a", {"x"})
    queue.done("a")
    assert await queue.get() is None


def sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, {"name": "test", "controller": "test", **labels})


async def test_depth_is_shown_by_priority(make_queue: MakeQueue, metrics: Metrics):
    queue = make_queue()
    queue.add("a")
    queue.add("b")
    queue.add("c", priority=Priority.LOW)
    queue.add("d", after=1)
    depths = {label: sample(metrics, "workqueue_depth", priority=label) for label in ("-100", "0", "100")}
    assert depths == {"-100": 1, "0": 2, "100": 0}


async def test_adds_metric_counts_a_key_once_it_is_ready(make_queue: MakeQueue, metrics: Metrics):
    queue = make_queue()
    queue.add("a")
    queue.add("a")
    queue.add("b", after=1)
    assert sample(metrics, "workqueue_adds_total") == 1
    await asyncio.sleep(2)
    assert sample(metrics, "workqueue_adds_total") == 2


async def test_retries_metric_counts_rate_limited_adds_only(make_queue: MakeQueue, metrics: Metrics):
    queue = make_queue()
    queue.add("a", after=1)
    assert sample(metrics, "workqueue_retries_total") == 0
    queue.add_rate_limited("a")
    assert sample(metrics, "workqueue_retries_total") == 1


async def test_waiting_and_working_are_timed(make_queue: MakeQueue, metrics: Metrics):
    queue = make_queue()
    queue.add("a", after=1)
    await asyncio.sleep(3)
    await queue.get()
    await asyncio.sleep(5)
    queue.done("a")
    assert sample(metrics, "workqueue_queue_duration_seconds_sum") == pytest.approx(2)
    assert sample(metrics, "workqueue_work_duration_seconds_sum") == pytest.approx(5)


async def test_work_in_progress_is_shown_with_its_age_at_the_time_of_asking(
    make_queue: MakeQueue, metrics: Metrics
):
    queue = make_queue()
    queue.add("a")
    await queue.get()
    await asyncio.sleep(4)
    queue.add("b")
    await queue.get()
    await asyncio.sleep(1)
    assert sample(metrics, "workqueue_unfinished_work_seconds") == pytest.approx(6)
    assert sample(metrics, "workqueue_longest_running_processor_seconds") == pytest.approx(5)
    queue.done("a")
    queue.done("b")
    assert sample(metrics, "workqueue_unfinished_work_seconds") == 0
    assert sample(metrics, "workqueue_longest_running_processor_seconds") == 0


async def test_queue_duration_metric_starts_when_a_key_in_progress_is_added(
    make_queue: MakeQueue, metrics: Metrics
):
    queue = make_queue()
    queue.add("a")
    await queue.get()
    queue.add("a")
    await asyncio.sleep(3)
    queue.done("a")
    await queue.get()
    assert sample(metrics, "workqueue_queue_duration_seconds_sum") == pytest.approx(3)


async def test_queue_metrics_show_the_oldest_key_and_the_next_retry(make_queue: MakeQueue, metrics: Metrics):
    queue = make_queue()

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
