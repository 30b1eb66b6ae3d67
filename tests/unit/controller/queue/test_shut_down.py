from __future__ import annotations

import asyncio

import pytest

from tests.unit.controller.queue.conftest import MakeQueue

pytestmark = pytest.mark.virtual_time


async def test_shut_down_makes_every_get_return_none(make_queue: MakeQueue):
    queue = make_queue()
    getting = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(1)
    queue.shut_down()
    assert await asyncio.gather(*getting) == [None, None, None]
    assert await queue.get() is None


async def test_shut_down_drops_waiting_keys(make_queue: MakeQueue):
    queue = make_queue()
    queue.add("a")
    queue.add("b", after=1)
    queue.shut_down()
    assert queue.is_shut_down
    assert await queue.get() is None
    assert len(queue) == 0


async def test_queue_ignores_adds_after_shut_down(make_queue: MakeQueue):
    queue = make_queue()
    queue.add("in progress")
    await queue.get()
    queue.shut_down()
    queue.add("a")
    queue.add("b", after=1)
    queue.add_rate_limited("c")
    queue.add("in progress")
    queue.done("in progress")
    assert await queue.get() is None


async def test_shut_down_leaves_no_timer_item_or_getter(make_queue: MakeQueue):
    loop = asyncio.get_running_loop()
    queue = make_queue()
    for number in range(100):
        queue.add(f"{number}", after=1 + number)
        queue.add_rate_limited(f"failed {number}")
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.shut_down()
    assert not loop.timers
    waiting.cancel()
    await asyncio.wait([waiting])
    assert not queue._items
    assert not queue._getters
    assert not queue._in_progress
