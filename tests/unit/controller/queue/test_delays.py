from __future__ import annotations

import asyncio

import pytest

from manager.controller.queue import DelayedItems, QueueItem
from manager.controller.reconciler import Priority
from manager.util.loop import loop_factory

pytestmark = pytest.mark.virtual_time


class Released:
    """Remembers what was released, and when."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.items: list[tuple[str, float]] = []

    def __call__(self, item: QueueItem[str]) -> None:
        self.items.append((item.key, round(self.loop.time(), 6)))


def pending_timers() -> int:
    """Timers of the loop that were not cancelled."""
    return len(asyncio.get_running_loop().timers)  # type: ignore[attr-defined]


@pytest.fixture
async def released() -> Released:
    return Released()


@pytest.fixture
async def delayed(released: Released) -> DelayedItems[str]:
    return DelayedItems(asyncio.get_running_loop(), released)


def item(key: str) -> QueueItem[str]:
    return QueueItem(key, Priority.NORMAL)


async def test_delayed_items_release_each_item_when_due(delayed: DelayedItems[str], released: Released):
    for key, due in [("c", 3.0), ("a", 1.0), ("b", 2.000001)]:
        delayed.push(item(key), due)
    await asyncio.sleep(10)
    assert released.items == [("a", 1.0), ("b", 2.000001), ("c", 3.0)]


async def test_delayed_items_share_one_timer(delayed: DelayedItems[str]):
    before = pending_timers()
    for number in range(1000):
        delayed.push(item(f"{number}"), 1000.0 - number)
    assert pending_timers() == before + 1


async def test_delayed_items_leave_no_timer_when_all_are_released_or_cleared(
    delayed: DelayedItems[str], released: Released
):
    before = pending_timers()
    delayed.push(item("a"), 1.0)
    await asyncio.sleep(2)
    assert pending_timers() == before
    delayed.push(item("b"), 5.0)
    assert [each.key for each in delayed.clear()] == ["b"]
    assert pending_timers() == before
    assert len(delayed) == 0
    delayed.push(item("c"), 8.0)
    await asyncio.sleep(10)
    assert released.items == [("a", 1.0), ("c", 8.0)]


async def test_delayed_items_drop_a_cancelled_item(delayed: DelayedItems[str], released: Released):
    early, late = item("early"), item("late")
    delayed.push(early, 1.0)
    delayed.push(late, 2.0)
    delayed.cancel(early)
    assert len(delayed) == 1
    assert [each.key for each in delayed.clear()] == ["late"]


async def test_delayed_items_release_an_item_moved_to_an_earlier_time_once(
    delayed: DelayedItems[str], released: Released
):
    moved = item("a")
    delayed.push(moved, 5.0)
    delayed.push(moved, 1.0)
    assert len(delayed) == 1
    await asyncio.sleep(10)
    assert released.items == [("a", 1.0)]
    assert len(delayed) == 0


async def test_cancelled_items_take_no_lasting_space(delayed: DelayedItems[str]):
    for number in range(10_000):
        again = item("busy")
        delayed.push(again, 3600.0 + number)
        delayed.cancel(again)
    assert len(delayed) == 0
    assert len(delayed._heap) < 200


async def test_delayed_items_accept_an_item_again_while_they_release_it():
    rounds: list[float] = []
    loop = asyncio.get_running_loop()

    def again(each: QueueItem[str]) -> None:
        rounds.append(loop.time())
        if len(rounds) < 3:
            delayed.push(each, loop.time() + 1)

    delayed = DelayedItems(loop, again)
    delayed.push(item("a"), 1.0)
    await asyncio.sleep(10)
    assert rounds == [1.0, 2.0, 3.0]


def test_delayed_items_release_overdue_items_in_order_on_the_real_loop():
    # For what is due within the millisecond, uvloop hands out no timer.
    async def released_keys() -> list[str]:
        loop = asyncio.get_running_loop()
        released: asyncio.Queue[str] = asyncio.Queue()
        delayed: DelayedItems[str] = DelayedItems(loop, lambda each: released.put_nowait(each.key))
        now = loop.time()
        for number, key in enumerate("cba"):
            delayed.push(item(key), now - number)
        async with asyncio.timeout(10):
            return [await released.get() for _ in range(3)]

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        assert runner.run(released_keys()) == ["a", "b", "c"]
