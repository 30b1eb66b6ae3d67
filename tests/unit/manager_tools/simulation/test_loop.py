from __future__ import annotations

import asyncio
import contextvars
import random

import pytest

from manager_tools.simulation.loop import ProcessClock, process_clock, simulate


async def _ran(order: list[int]) -> list[int]:
    async def note(number: int) -> None:
        order.append(number)

    await asyncio.gather(*(note(number) for number in range(20)))
    return order


def test_tasks_that_are_ready_together_run_in_the_order_that_is_drawn():
    first, second, other = (simulate(_ran([]), random.Random(seed)) for seed in (1, 1, 2))
    assert first == second != other
    assert sorted(first) == list(range(20)) == simulate(_ran([]))


@pytest.mark.virtual_time
async def test_process_clock_holds_back_callbacks_of_frozen_process():
    clock, ticks, loop = ProcessClock(), list[float](), asyncio.get_running_loop()

    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(loop.time())

    context = contextvars.copy_context()
    context.run(process_clock.set, clock)
    ticking = loop.create_task(tick(), context=context)
    await asyncio.sleep(2.5)
    assert len(ticks) == 2
    clock.paused = []
    await asyncio.sleep(10)
    assert len(ticks) == 2
    clock.resume()
    await asyncio.sleep(0.25)
    assert len(ticks) == 3
    assert ticks[-1] == pytest.approx(12.5, abs=0.01)
    ticking.cancel()
    await asyncio.wait([ticking])
