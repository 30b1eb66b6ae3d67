from __future__ import annotations

import asyncio
import itertools
import random

import pytest

from manager.controller.reconciler import Priority, Request
from manager.controller.source import ChannelSource, TickerSource
from tests.unit.controller.doubles import Numbers, turns
from tests.unit.controller.source.conftest import MakeQueue

pytestmark = pytest.mark.virtual_time


async def test_ticker_enqueues_periodically_at_low_priority(make_queue: MakeQueue, rng: random.Random):
    queue = make_queue()
    source = TickerSource(60, lambda: [Request("ns", "a")], jitter=0, rng=rng)
    await source.wait_synced()
    task = asyncio.create_task(source.run(queue))
    times = []
    for _ in range(3):
        item = await queue.get()
        assert item is not None
        assert item.priority == Priority.LOW
        queue.done(item.key)
        times.append(asyncio.get_running_loop().time())
    task.cancel()
    await asyncio.wait([task])
    assert times == [60, 120, 180]


async def test_ticker_spreads_its_requests_over_a_tenth_of_the_interval(
    make_queue: MakeQueue, rng: random.Random
):
    queue = make_queue()
    many = [Request("ns", f"{number}") for number in range(1000)]
    task = asyncio.create_task(TickerSource(600, lambda: many, jitter=0, rng=rng).run(queue))
    for tick in (600, 1200):
        times = []
        for request in many:
            item = await queue.get()
            assert item is not None
            assert item.key == request
            queue.done(item.key)
            times.append(asyncio.get_running_loop().time())
        assert times[0] == tick
        assert 55 <= times[-1] - times[0] < 60
        assert max(later - earlier for earlier, later in itertools.pairwise(times)) < 0.1
    task.cancel()
    await asyncio.wait([task])


async def test_ticker_enqueues_many_requests_in_small_portions(make_queue: MakeQueue, rng: random.Random):
    queue = make_queue()
    many = [Request("ns", f"{number}") for number in range(20_000)]
    task = asyncio.create_task(TickerSource(10, lambda: iter(many), jitter=0, rng=rng).run(queue))
    depths = []
    for _ in range(12):
        await asyncio.sleep(1)
        depths.append(sum(Numbers(queue).ready.values()))
    assert depths[8] == 0
    assert 0 < depths[9] < 1500
    assert depths[10] == 20_000
    task.cancel()
    await asyncio.wait([task])


async def test_ticker_varies_its_interval_by_the_jitter(rng: random.Random, make_queue: MakeQueue):
    ticks: list[float] = []

    def note() -> list[Request]:
        ticks.append(asyncio.get_running_loop().time())
        return []

    task = asyncio.create_task(TickerSource(100, note, jitter=0.2, rng=rng).run(make_queue()))
    await asyncio.sleep(5000)
    task.cancel()
    await asyncio.wait([task])
    intervals = [later - earlier for earlier, later in zip([0.0, *ticks], ticks, strict=False)]
    assert min(intervals) >= 79.9
    assert max(intervals) <= 120.1
    assert max(intervals) - min(intervals) > 20


@pytest.mark.parametrize(("interval", "jitter"), [(0, 0.1), (-1, 0.1), (1, 2), (1, -0.1)])
def test_ticker_refuses_an_invalid_interval_or_jitter(interval: float, jitter: float, rng: random.Random):
    with pytest.raises(ValueError, match="ticker"):
        TickerSource(interval, list, jitter=jitter, rng=rng)


async def test_channel_source_enqueues_a_sent_request(make_queue: MakeQueue):
    queue = make_queue()
    source = ChannelSource()
    await source.wait_synced()
    task = asyncio.create_task(source.run(queue))
    await turns()
    source.send(Request("ns", "a"), priority=Priority.HIGH)
    assert queue.depth(Priority.HIGH) == 1
    task.cancel()
    await asyncio.wait([task])


async def test_channel_source_merges_requests_sent_early_at_their_highest_priority(make_queue: MakeQueue):
    queue = make_queue()
    source = ChannelSource()
    source.send(Request("ns", "a"), priority=Priority.LOW)
    source.send(Request("ns", "b"))
    source.send(Request("ns", "a"), priority=Priority.HIGH)
    source.send(Request("ns", "b"), priority=Priority.LOW)
    task = asyncio.create_task(source.run(queue))
    await turns()
    assert queue.depth(Priority.HIGH) == 1
    assert queue.depth(Priority.NORMAL) == 1
    assert queue.depth(Priority.LOW) == 0
    task.cancel()
    await asyncio.wait([task])
    source.send(Request("ns", "c"))
    assert len(queue) == 2
