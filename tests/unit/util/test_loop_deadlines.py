from __future__ import annotations

import asyncio
import math

import pytest

from manager.util.clock import monotonic as now
from manager.util.loop import Deadlines

pytestmark = pytest.mark.virtual_time


class Missed(Exception):
    pass


@pytest.fixture
async def deadlines() -> Deadlines:
    return Deadlines()


async def work(deadlines: Deadlines, *, seconds: float, within: float) -> str:
    deadline = deadlines.start(within)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        if deadline.missed():
            raise Missed from None
        raise
    finally:
        deadlines.stop(deadline)
    return "done"


async def test_work_that_keeps_its_deadline_goes_on(deadlines: Deadlines):
    assert await work(deadlines, seconds=1, within=2) == "done"
    await asyncio.sleep(10)


async def test_work_that_misses_its_deadline_is_interrupted_then(deadlines: Deadlines):
    with pytest.raises(Missed):
        await work(deadlines, seconds=5, within=2)
    assert now() == 2
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


async def test_deadlines_interrupt_each_concurrent_block_at_its_own_time(deadlines: Deadlines):
    ended: dict[float, float] = {}

    async def one(within: float) -> None:
        with pytest.raises(Missed):
            await work(deadlines, seconds=100, within=within)
        ended[within] = now()

    async with asyncio.TaskGroup() as group:
        for within in (7.0, 3.0, 5.0, 3.5, 20.0):
            group.create_task(one(within))
    assert ended == {within: within for within in (7.0, 3.0, 5.0, 3.5, 20.0)}


async def test_later_block_has_its_own_deadline(deadlines: Deadlines):
    for _ in range(3):
        assert await work(deadlines, seconds=4, within=5) == "done"
    with pytest.raises(Missed):
        await work(deadlines, seconds=6, within=5)
    assert now() == 17


async def test_cancellation_from_elsewhere_stays_a_cancellation(deadlines: Deadlines):
    task = asyncio.create_task(work(deadlines, seconds=5, within=3))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancellation_together_with_the_deadline_stays_a_cancellation(deadlines: Deadlines):
    task = asyncio.create_task(work(deadlines, seconds=5, within=3))
    asyncio.get_running_loop().call_at(3, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_enclosing_timeout_is_distinguished(deadlines: Deadlines):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2):
            await work(deadlines, seconds=5, within=3)
    with pytest.raises(Missed):
        async with asyncio.timeout(4):
            await work(deadlines, seconds=5, within=3)


async def test_nested_deadline_interrupts_only_its_own_block(deadlines: Deadlines):
    outer = deadlines.start(10)
    with pytest.raises(Missed):
        await work(deadlines, seconds=5, within=3)
    assert await work(deadlines, seconds=5, within=6) == "done"
    deadlines.stop(outer)
    assert not outer.expired


async def test_work_that_turns_the_interruption_into_its_own_error_leaves_no_cancellation(
    deadlines: Deadlines,
):
    deadline = deadlines.start(1)
    try:
        await asyncio.sleep(5)
    except asyncio.CancelledError:
        pass
    finally:
        deadlines.stop(deadline)
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


async def test_infinite_deadline_sets_no_timer(deadlines: Deadlines):
    assert await work(deadlines, seconds=1e6, within=math.inf) == "done"
    assert not pending_timers()


async def test_closed_deadlines_leave_no_timer_and_can_be_used_again(deadlines: Deadlines):
    assert await work(deadlines, seconds=1, within=300) == "done"
    assert pending_timers()
    deadlines.close()
    assert not pending_timers()
    with pytest.raises(Missed):
        await work(deadlines, seconds=5, within=2)


def pending_timers() -> list[asyncio.TimerHandle]:
    return asyncio.get_running_loop().timers  # type: ignore[attr-defined]
