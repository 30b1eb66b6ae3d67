"""Event loop of the simulation: virtual time, the order of tasks, and the clocks of processes."""

from __future__ import annotations

import asyncio
import random
from contextvars import copy_context

import pytest

from manager.util import clock
from manager_tools.simulation.loop import EPOCH, ProcessClock, ThreadHold, process_clock, simulate

pytestmark = pytest.mark.virtual_time


async def test_virtual_time_advances_exactly_by_the_sleeps_of_tasks():
    for _ in range(3):
        await asyncio.sleep(0.1)
    assert clock.monotonic() == 0.3
    assert clock.now().timestamp() == EPOCH + 0.3
    until = clock.monotonic() + 1e-10
    while clock.monotonic() < until:  # noqa: ASYNC110 -- the test needs the loop
        await asyncio.sleep(until - clock.monotonic())
    assert 0.3 < clock.monotonic() <= 0.3 + 2e-6


async def test_simulated_processes_have_separate_clocks():
    context = copy_context()
    context.run(process_clock.set, ProcessClock(rate=2.0, offset=100.0, skew=5.0))

    async def process() -> tuple[float, float]:
        began = clock.monotonic()
        await asyncio.sleep(60)
        return began, clock.monotonic()

    began, ended = await asyncio.create_task(process(), context=context)
    assert began == 100.0
    assert ended == pytest.approx(160.0, abs=1e-5)
    assert clock.monotonic() == pytest.approx(30.0, abs=1e-5)


async def test_thread_call_takes_no_virtual_time():
    order: list[str] = []
    asyncio.get_running_loop().call_soon(order.append, "loop")
    await asyncio.to_thread(order.append, "thread")
    assert order == ["thread", "loop"]
    assert clock.monotonic() == 0


async def test_thread_hold_blocks_threads_until_its_release_while_virtual_time_advances():
    hold = ThreadHold()
    held = [asyncio.create_task(asyncio.to_thread(hold.wait)) for _ in range(2)]
    await asyncio.sleep(3600)
    assert not any(each.done() for each in held)
    hold.release()
    await asyncio.gather(*held)
    assert clock.monotonic() == 3600


def test_simulate_raises_runtime_error_when_a_task_would_wait_forever():
    with pytest.raises(RuntimeError, match="standstill"):
        simulate(asyncio.Event().wait())


async def _ran(order: list[int]) -> list[int]:
    async def note(number: int) -> None:
        order.append(number)

    await asyncio.gather(*(note(number) for number in range(20)))
    return order


def test_tasks_that_are_ready_together_run_in_an_order_given_by_the_seed():
    first, second, other = (simulate(_ran([]), random.Random(seed)) for seed in (1, 1, 2))
    assert first == second != other
    assert sorted(first) == list(range(20)) == simulate(_ran([]))


async def test_process_clock_delays_callbacks_of_a_paused_process_until_it_resumes():
    process, ticks, loop = ProcessClock(), list[float](), asyncio.get_running_loop()

    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(loop.time())

    context = copy_context()
    context.run(process_clock.set, process)
    ticking = loop.create_task(tick(), context=context)
    await asyncio.sleep(2.5)
    assert len(ticks) == 2
    process.paused = []
    await asyncio.sleep(10)
    assert len(ticks) == 2
    process.resume()
    await asyncio.sleep(0.25)
    assert len(ticks) == 3
    assert ticks[-1] == pytest.approx(12.5, abs=0.01)
    ticking.cancel()
    await asyncio.wait([ticking])
