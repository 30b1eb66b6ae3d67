from __future__ import annotations

import asyncio

import pytest

from manager.controller.reconciler import Priority, Request
from manager.controller.source import ChannelSource
from tests.unit.controller.doubles import turns
from tests.unit.controller.source.conftest import MakeQueue

pytestmark = pytest.mark.virtual_time


async def test_what_is_sent_is_asked_for(make_queue: MakeQueue):
    queue = make_queue()
    source = ChannelSource()
    await source.wait_synced()
    task = asyncio.create_task(source.run(queue))
    await turns()
    source.send(Request("ns", "a"), priority=Priority.HIGH)
    assert queue.depth(Priority.HIGH) == 1
    task.cancel()
    await asyncio.wait([task])


async def test_what_is_sent_before_it_runs_is_kept_once_at_its_highest_priority(make_queue: MakeQueue):
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
