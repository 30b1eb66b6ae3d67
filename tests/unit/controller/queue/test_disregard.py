"""Taking back what was asked for while a key is worked on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manager.controller.queue import WorkQueue
from manager.controller.reconciler import Priority
from tests.unit.controller.queue.conftest import MakeQueue

pytestmark = pytest.mark.virtual_time


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
