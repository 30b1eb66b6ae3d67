from __future__ import annotations

import asyncio
import random

import pytest

from manager.controller.priority import Priority
from manager.controller.request import Request
from manager.controller.source import TickerSource
from tests.unit.controller.source.conftest import MakeQueue

pytestmark = pytest.mark.looptime


async def test_it_asks_again_and_again_at_low_priority(make_queue: MakeQueue, rng: random.Random):
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


async def test_intervals_differ_by_the_jitter(rng: random.Random, make_queue: MakeQueue):
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
def test_numbers_that_make_no_sense_are_refused(interval: float, jitter: float, rng: random.Random):
    with pytest.raises(ValueError, match="ticker"):
        TickerSource(interval, list, jitter=jitter, rng=rng)
