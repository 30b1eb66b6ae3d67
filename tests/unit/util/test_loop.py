from __future__ import annotations

import asyncio
import math
import sys
import threading
import time
from contextlib import closing, suppress

import pytest

from manager.telemetry.metrics import Metrics
from manager.util import loop
from manager.util.clock import monotonic as now
from manager.util.loop import (
    SMALL,
    Deadlines,
    WorkThreads,
    ended,
    loop_factory,
    observe_lag,
    own_turn,
    unless,
)


@pytest.mark.parametrize("has_uvloop", [True, False])
def test_loop_factory_prefers_uvloop_when_it_is_installed(has_uvloop: bool, monkeypatch: pytest.MonkeyPatch):
    expected: type = pytest.importorskip("uvloop").Loop if has_uvloop else asyncio.SelectorEventLoop
    if not has_uvloop:
        monkeypatch.setitem(sys.modules, "uvloop", None)
    with closing(loop_factory()()) as loop:
        assert isinstance(loop, expected)


def test_loop_time_advances_during_a_callback_and_no_timer_fires_early():
    async def main() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        start, machine = loop.time(), time.monotonic()
        while time.monotonic() == machine:
            pass
        passed = loop.time() - start
        fired, due = loop.create_future(), loop.time() + 0.01
        loop.call_at(due, lambda: fired.set_result(loop.time()))
        return passed, await fired - due

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        passed, late = runner.run(main())
    assert 0 < passed < 3600
    assert late >= -0.001


@pytest.mark.virtual_time
async def test_observe_lag_records_the_lag_once_a_second_until_it_is_cancelled():
    metrics = Metrics()
    task = asyncio.create_task(observe_lag(metrics.loop_lag))
    await asyncio.sleep(10.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    count = metrics.registry.get_sample_value("operator_manager_event_loop_lag_seconds_count")
    total = metrics.registry.get_sample_value("operator_manager_event_loop_lag_seconds_sum")
    assert count == 10
    assert total == pytest.approx(0, abs=1e-6)


@pytest.mark.each_loop
async def test_work_threads_count_as_busy_until_their_cancelled_work_ends():
    names: list[str] = []
    started, may_end = threading.Event(), threading.Event()

    def work() -> None:
        names.append(threading.current_thread().name)
        started.set()
        may_end.wait(30)

    loop, threads = asyncio.get_running_loop(), WorkThreads()
    loop.set_default_executor(threads)
    task = loop.create_task(asyncio.to_thread(work), name="worker", context=threads.context())
    await asyncio.sleep(0)
    await asyncio.to_thread(started.wait, 30)  # this call does not count as work
    others = [
        loop.create_task(asyncio.to_thread(may_end.wait, 30), context=threads.context()) for _ in range(99)
    ]
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert len(threads.busy) == 100
    async with asyncio.timeout(20):
        assert await asyncio.to_thread(int, "7") == 7, "calls that are not work use separate threads"
    idle = loop.create_task(ended(threads.busy))
    await asyncio.sleep(0.01)
    assert not idle.done()
    may_end.set()
    await asyncio.gather(idle, *others)
    assert not threads.busy
    assert names == ["work_0 for worker"]


@pytest.mark.virtual_time
class TestOwnTurn:
    async def test_concurrent_calls_of_own_turn_return_in_the_order_of_the_calls(self):
        order = list[str]()

        async def works(name: str, times: int) -> None:
            for _ in range(times):
                await own_turn(SMALL + 1)
                order.append(name)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(works("much", 3))
            for name in ("a", "b"):
                tasks.create_task(works(name, 1))
        assert order == ["much", "a", "b", "much", "much"]

    async def test_own_turn_skips_the_call_of_a_cancelled_task(self):
        first, second, third = (asyncio.create_task(own_turn(SMALL + 1)) for _ in range(3))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(first, third)
        assert second.cancelled()
        await asyncio.sleep(0)
        assert asyncio.get_running_loop() not in loop._waiting


@pytest.mark.parametrize("end", ["result", "stopped before", "stopped", "cancelled"])
async def test_unless_function_cancels_its_coroutine_when_event_is_set_or_caller_is_cancelled(end: str):
    stop, started, cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> str:
        started.set()
        try:
            await (asyncio.sleep(0) if end == "result" else asyncio.Event().wait())
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "done"

    if end == "stopped before":
        stop.set()
    task = asyncio.create_task(unless(stop, work()))
    await started.wait()
    if end == "cancelled":
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        if end == "stopped":
            stop.set()
        assert await task == (("done",) if end == "result" else None)
    assert cancelled.is_set() is (end != "result")


class Missed(Exception):
    pass


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


def pending_timers() -> list[asyncio.TimerHandle]:
    return asyncio.get_running_loop().timers  # type: ignore[attr-defined]


@pytest.mark.virtual_time
class TestDeadlines:
    @pytest.fixture
    async def deadlines(self) -> Deadlines:
        return Deadlines()

    async def test_deadlines_interrupt_each_concurrent_block_at_its_own_deadline(self, deadlines: Deadlines):
        ended: dict[float, float] = {}

        async def one(within: float) -> None:
            with pytest.raises(Missed):
                await work(deadlines, seconds=100, within=within)
            ended[within] = now()

        async with asyncio.TaskGroup() as group:
            for within in (7.0, 3.0, 5.0, 3.5, 20.0):
                group.create_task(one(within))
        assert ended == {within: within for within in (7.0, 3.0, 5.0, 3.5, 20.0)}

    async def test_missed_deadline_does_not_leave_the_task_cancelled(self, deadlines: Deadlines):
        for _ in range(3):
            assert await work(deadlines, seconds=4, within=5) == "done"
        await asyncio.sleep(10)
        with pytest.raises(Missed):
            await work(deadlines, seconds=6, within=5)
        assert now() == 27
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
        deadline = deadlines.start(1)
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(5)
        deadlines.stop(deadline)
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]

    @pytest.mark.parametrize("when", [1, 3])
    async def test_deadlines_propagate_a_cancellation_by_another_task_even_at_the_deadline(
        self, deadlines: Deadlines, when: float
    ):
        task = asyncio.create_task(work(deadlines, seconds=5, within=3))
        asyncio.get_running_loop().call_at(when, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task

    async def test_nested_deadline_and_timeout_raise_only_the_error_of_the_earlier_one(
        self, deadlines: Deadlines
    ):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await work(deadlines, seconds=5, within=3)
        outer = deadlines.start(10)
        with pytest.raises(Missed):
            async with asyncio.timeout(4):
                await work(deadlines, seconds=5, within=3)
        assert await work(deadlines, seconds=5, within=6) == "done"
        deadlines.stop(outer)
        assert not outer.expired

    async def test_deadlines_have_no_timer_after_close_and_can_be_used_again(self, deadlines: Deadlines):
        assert await work(deadlines, seconds=1e6, within=math.inf) == "done"
        assert not pending_timers()
        assert await work(deadlines, seconds=1, within=300) == "done"
        assert pending_timers()
        deadlines.close()
        assert not pending_timers()
        with pytest.raises(Missed):
            await work(deadlines, seconds=5, within=2)
