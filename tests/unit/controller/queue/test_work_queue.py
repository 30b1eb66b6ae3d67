"""Taking back what was asked for while a key is worked on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manager.controller.queue import WorkQueue
from manager.controller.reconciler import Priority
from manager.metrics import Metrics
from manager.runs import MOST_TRIGGERS, Trigger
from tests.unit.controller.doubles import Numbers
from tests.unit.controller.queue.conftest import MakeQueue

pytestmark = pytest.mark.virtual_time


def now() -> float:
    return round(asyncio.get_running_loop().time(), 3)


async def take(queue: WorkQueue[str]) -> str:
    """The next key, which is done at once."""
    item = await queue.get()
    assert item is not None
    queue.done(item.key)
    return item.key


async def take_all(queue: WorkQueue[str]) -> list[str]:
    return [await take(queue) for _ in range(len(queue))]


async def test_keys_come_out_in_the_order_they_were_added(make_queue: MakeQueue):
    queue = make_queue()
    for key in "cab":
        queue.add(key)
    assert await take_all(queue) == ["c", "a", "b"]


async def test_a_key_that_waits_already_is_not_added_again(make_queue: MakeQueue):
    queue = make_queue()
    for key in "abaab":
        queue.add(key)
    assert await take_all(queue) == ["a", "b"]


async def test_get_waits_for_a_key(make_queue: MakeQueue):
    queue = make_queue()
    getting = asyncio.create_task(take(queue))
    await asyncio.sleep(5)
    assert not getting.done()
    queue.add("a")
    assert await getting == "a"


async def test_a_key_in_progress_is_not_handed_out_until_it_is_done_and_then_again(make_queue: MakeQueue):
    queue = make_queue()
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.add("b")
    assert await take_all(queue) == ["b"]
    assert len(queue) == 0
    queue.done("a")
    assert await take_all(queue) == ["a"]
    assert len(queue) == 0


async def test_a_key_added_several_times_while_in_progress_runs_once_more(make_queue: MakeQueue):
    queue = make_queue()
    queue.add("a")
    await queue.get()
    for _ in range(5):
        queue.add("a")
    queue.done("a")
    assert await take_all(queue) == ["a"]


async def test_done_without_get_is_a_mistake(make_queue: MakeQueue):
    queue = make_queue()
    queue.add("a")
    with pytest.raises(KeyError):
        queue.done("a")


async def test_a_delayed_key_is_handed_out_when_it_is_due(make_queue: MakeQueue):
    queue = make_queue()
    queue.add("a", after=5)
    assert len(queue) == 0
    assert await take(queue) == "a"
    assert now() == 5


async def test_delayed_keys_come_out_in_the_order_they_fall_due(make_queue: MakeQueue):
    queue = make_queue()
    for key, after in [("a", 3), ("b", 1), ("c", 2), ("d", 2)]:
        queue.add(key, after=after)
    assert [(await take(queue), now()) for _ in range(4)] == [("b", 1), ("c", 2), ("d", 2), ("a", 3)]


async def test_the_earlier_of_two_delays_counts(make_queue: MakeQueue):
    queue = make_queue()
    queue.add("a", after=5)
    queue.add("a", after=2)
    queue.add("a", after=9)
    assert await take(queue) == "a"
    assert now() == 2
    await asyncio.sleep(20)
    assert len(queue) == 0


async def test_a_delayed_key_added_without_delay_is_ready_at_once_and_only_once(make_queue: MakeQueue):
    queue = make_queue()
    queue.add("a", after=5)
    queue.add("a")
    assert await take_all(queue) == ["a"]
    await asyncio.sleep(10)
    assert len(queue) == 0


async def test_a_ready_key_added_with_a_delay_stays_ready(make_queue: MakeQueue):
    queue = make_queue()
    queue.add("a")
    queue.add("a", after=5)
    assert await take_all(queue) == ["a"]
    await asyncio.sleep(10)
    assert len(queue) == 0


async def test_a_delay_that_ends_while_the_key_is_in_progress_makes_it_run_again_after(make_queue: MakeQueue):
    queue = make_queue()
    queue.add("a")
    await queue.get()
    queue.add("a", after=1)
    await asyncio.sleep(2)
    assert len(queue) == 0
    queue.done("a")
    assert await take_all(queue) == ["a"]


async def test_a_delay_set_while_the_key_is_in_progress_outlasts_it(make_queue: MakeQueue):
    queue = make_queue()
    queue.add("a")
    await queue.get()
    queue.add("a", after=5)
    queue.done("a")
    assert len(queue) == 0
    assert await take(queue) == "a"
    assert now() == 5


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


async def test_a_rate_limited_key_comes_back_after_its_back_off(make_queue: MakeQueue):
    queue = make_queue()
    delay = queue.add_rate_limited("a")
    assert await take(queue) == "a"
    assert now() == delay


async def test_higher_priorities_go_first_and_keep_their_order(make_queue: MakeQueue):
    queue = make_queue()
    for number, priority in enumerate([Priority.LOW, Priority.NORMAL, Priority.HIGH] * 2):
        queue.add(f"{priority.name} {number}", priority=priority)
    assert await take_all(queue) == ["HIGH 2", "HIGH 5", "NORMAL 1", "NORMAL 4", "LOW 0", "LOW 3"]


async def test_a_waiting_key_rises_to_a_higher_priority_and_never_falls(make_queue: MakeQueue):
    queue = make_queue()
    queue.add("a", priority=Priority.LOW)
    queue.add("b")
    queue.add("a")
    queue.add("b", priority=Priority.LOW)
    queue.add("c", priority=Priority.LOW)
    assert queue.depth(Priority.NORMAL) == 2
    assert queue.depth(Priority.LOW) == 1
    assert await take_all(queue) == ["b", "a", "c"]


async def test_a_delayed_key_keeps_the_highest_priority_it_was_given(make_queue: MakeQueue):
    queue = make_queue()
    queue.add("a", after=1, priority=Priority.LOW)
    queue.add("a", after=2, priority=Priority.HIGH)
    queue.add("b", after=1)
    await asyncio.sleep(3)
    assert await take_all(queue) == ["a", "b"]


async def test_a_key_in_progress_keeps_the_highest_priority_for_its_next_run(make_queue: MakeQueue):
    queue = make_queue()
    queue.add("a")
    await queue.get()
    queue.add("a", priority=Priority.LOW)
    queue.add("b")
    queue.add("a", priority=Priority.HIGH)
    queue.done("a")
    assert await take_all(queue) == ["a", "b"]


async def test_an_item_tells_its_priority_and_the_first_of_what_asked_for_it(make_queue: MakeQueue):
    queue = make_queue()
    triggers = [Trigger("event", float(number)) for number in range(MOST_TRIGGERS + 5)]
    queue.add("a")
    for trigger in triggers:
        queue.add("a", trigger=trigger, priority=Priority.HIGH)
    item = await queue.get()
    assert (item.key, item.priority, item.triggered) == ("a", Priority.HIGH, MOST_TRIGGERS + 6)
    assert item.triggers == tuple(triggers[:MOST_TRIGGERS])


async def test_a_getter_cancelled_after_it_was_woken_leaves_the_key_to_another(make_queue: MakeQueue):
    queue = make_queue()
    first = asyncio.create_task(take(queue))
    second = asyncio.create_task(take(queue))
    await asyncio.sleep(0)
    queue.add("a")  # wakes the first
    first.cancel()
    assert await second == "a"
    assert first.cancelled()


async def test_a_getter_cancelled_while_waiting_is_not_waited_for(make_queue: MakeQueue):
    queue = make_queue()
    first = asyncio.create_task(take(queue))
    second = asyncio.create_task(take(queue))
    await asyncio.sleep(0)
    first.cancel()
    queue.add("a")
    assert await second == "a"
    assert Numbers(queue).idle_getters == 0


async def test_many_workers_never_hold_the_same_key_at_once(make_queue: MakeQueue):
    queue = make_queue()
    held: set[str] = set()
    runs: dict[str, int] = {}

    async def work() -> None:
        while (item := await queue.get()) is not None:
            assert item.key not in held
            held.add(item.key)
            runs[item.key] = runs.get(item.key, 0) + 1
            await asyncio.sleep(0.01)
            held.remove(item.key)
            queue.done(item.key)

    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(work())
        for step in range(200):
            queue.add(f"{step % 7}")
            await asyncio.sleep(0.003)
        await asyncio.sleep(1)
        queue.shut_down()
    assert set(runs) == set("0123456")
    assert not held


async def test_every_key_is_in_one_place(make_queue: MakeQueue):
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
    """A queue whose only key is being worked on."""
    queue = make_queue()
    queue.add("a")
    await queue.get()
    return queue


async def test_a_key_that_only_these_causes_asked_for_is_not_handed_out_again(make_queue: MakeQueue):
    queue = await at_work(make_queue)
    queue.add("a", cause="x")
    queue.add("a", cause="y")
    assert queue.disregard("a", {"x", "y", "z"})
    queue.done("a")
    assert len(queue) == 0


@pytest.mark.parametrize("also", [{"cause": "y"}, {}, {"priority": Priority.HIGH}])
async def test_a_key_that_something_else_asked_for_too_is_handed_out_again(
    make_queue: MakeQueue, also: dict[str, Any]
):
    for order in (({"cause": "x"}, also), (also, {"cause": "x"})):
        queue = await at_work(make_queue)
        for how in order:
            queue.add("a", **how)
        assert not queue.disregard("a", {"x"})
        queue.done("a")
        assert len(queue) == 1


async def test_a_key_that_nobody_asked_for_is_nothing_to_disregard(make_queue: MakeQueue):
    queue = await at_work(make_queue)
    assert not queue.disregard("a", {"x"})


async def test_a_key_whose_time_has_not_come_stays(make_queue: MakeQueue):
    queue = await at_work(make_queue)
    queue.add("a", after=5)
    queue.add("a", cause="x")  # which makes it due at once
    assert not queue.disregard("a", {"x"})
    queue.done("a")
    assert len(queue) == 1


async def test_what_causes_asked_for_at_a_later_time_stays(make_queue: MakeQueue):
    queue = await at_work(make_queue)
    queue.add("a", after=5, cause="x")
    assert not queue.disregard("a", {"x"})
    queue.done("a")
    await asyncio.sleep(5.1)
    assert len(queue) == 1


async def test_what_was_asked_for_before_is_not_taken_back(make_queue: MakeQueue):
    queue = make_queue()
    queue.add("a", cause="x")
    assert not queue.disregard("a", {"x"})
    assert await queue.get()
    queue.done("a")


async def test_after_it_the_key_can_be_added_as_ever(make_queue: MakeQueue):
    queue = await at_work(make_queue)
    queue.add("a", cause="x")
    assert queue.disregard("a", {"x"})
    queue.add("a", after=3)
    queue.done("a")
    await asyncio.sleep(3.1)
    assert len(queue) == 1


async def test_a_queue_that_was_shut_down_has_nothing_to_disregard(make_queue: MakeQueue):
    queue = await at_work(make_queue)
    queue.add("a", cause="x")
    queue.shut_down()
    assert not queue.disregard("a", {"x"})
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


async def test_a_key_counts_as_added_once_it_is_ready(make_queue: MakeQueue, metrics: Metrics):
    queue = make_queue()
    queue.add("a")
    queue.add("a")
    queue.add("b", after=1)
    assert sample(metrics, "workqueue_adds_total") == 1
    await asyncio.sleep(2)
    assert sample(metrics, "workqueue_adds_total") == 2


async def test_only_what_failed_counts_as_retried(make_queue: MakeQueue, metrics: Metrics):
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


async def test_a_key_added_while_in_progress_waits_from_then(make_queue: MakeQueue, metrics: Metrics):
    queue = make_queue()
    queue.add("a")
    await queue.get()
    queue.add("a")
    await asyncio.sleep(3)
    queue.done("a")
    await queue.get()
    assert sample(metrics, "workqueue_queue_duration_seconds_sum") == pytest.approx(3)
