from __future__ import annotations

import asyncio

import pytest

from manager.controller.reconciler import Priority
from manager.metrics import Metrics
from tests.unit.controller.queue.conftest import MakeQueue

pytestmark = pytest.mark.virtual_time


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
