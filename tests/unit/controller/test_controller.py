from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from manager.controller.controller import ControllerState
from manager.controller.queue import WorkQueue
from manager.controller.reconciler import Request, Result
from tests.unit.conftest import LogLines
from tests.unit.controller.doubles import ManualSource, Reconciler, Running, now, resisting, taking, turns

pytestmark = pytest.mark.virtual_time


async def test_controller_starts_no_reconcile_until_every_source_is_synced():
    first, second = ManualSource(synced=False), ManualSource(synced=False)
    async with Running(Reconciler(), sources=[first, second]) as running:
        first.add("a")
        await asyncio.sleep(10)
        first.sync()
        await asyncio.sleep(10)
        assert running.reconciler.calls == []
        second.sync()
        await asyncio.sleep(10)
        assert running.reconciler.calls == [("a", 20)]
        with pytest.raises(RuntimeError, match="started twice"):
            await running.controller.run()


async def test_controller_ready_problem_lists_each_problem_of_unsynced_sources_once():
    first = ManualSource(synced=False, problem="pods: forbidden")
    same = ManualSource(synced=False, problem="pods: forbidden")
    other = ManualSource(synced=False, problem="foos: the CRD is not installed")
    fine = ManualSource()
    async with Running(Reconciler(), sources=[first, same, other, fine]) as running:
        problem = running.controller.ready_problem()
        assert problem == "waiting for caches: pods: forbidden; foos: the CRD is not installed"
        for source in (first, same, other):
            source.problem = None
        assert running.controller.ready_problem() is None
        for source in (first, same, other):
            source.sync()
        await turns()
        assert running.controller.ready_problem() is None


async def test_standby_controller_has_no_queue_and_all_its_metrics_are_zero():
    running = Running(Reconciler())
    standby = running.controller
    assert standby.state is ControllerState.STANDBY
    assert standby.ready_problem() is None
    assert standby.queue is None
    assert not standby._running
    assert standby.failing == 0
    assert standby.needs_leader_election
    for result in ("success", "error", "requeue", "requeue_after"):
        assert running.sample("controller_runtime_reconcile_total", result=result) == 0
    for name in ("errors", "panics", "timeouts"):
        assert running.sample(f"controller_runtime_reconcile_{name}_total") == 0
    await standby.stop(grace=30)
    await standby.run()
    assert (standby.queue, standby.state) == (None, ControllerState.STOPPED), "a stop is final"


async def test_controller_runs_max_concurrent_reconciles_in_parallel_and_never_more():
    async with Running(taking(1), max_concurrent_reconciles=3) as running:
        running.add(*"abcdefg")
        await asyncio.sleep(0.5)
        assert running.sample("controller_runtime_active_workers") == 3
        assert running.sample("controller_runtime_max_concurrent_reconciles") == 3
        assert len(running.controller._running) == 3
        await asyncio.sleep(10)
        assert running.reconciler.most_at_once == 3
        assert running.reconciler.times == [0, 0, 0, 1, 1, 1, 2]
        assert running.sample("controller_runtime_active_workers") == 0


async def test_controller_never_runs_two_reconciles_of_the_same_object_concurrently():
    async with Running(taking(1)) as running:
        for _ in range(25):
            running.add("a")
            await asyncio.sleep(0.1)
        assert running.reconciler.most_at_once == 1
        await asyncio.sleep(5)
        # A reconcile began after every change.
        assert running.reconciler.times == [0, 1, 2, 3]


async def test_controller_yields_to_the_loop_between_reconciles_that_never_wait():
    between: list[int] = []

    async def observe() -> None:
        while len(running.reconciler.calls) < 1000:
            between.append(len(running.reconciler.calls))
            await asyncio.sleep(0)

    async with Running(Reconciler()) as running:
        running.add(*(f"{number}" for number in range(1000)))
        await observe()
    steps = [later - earlier for earlier, later in pairwise(between)]
    assert max(steps) <= 8  # one per worker


async def test_controller_starts_reconciles_within_the_rate_limit():
    async with Running(Reconciler(), rate_limit=2.0) as running:
        running.add(*"abcdef")
        await asyncio.sleep(60)
        assert running.reconciler.names == list("abcdef")
        assert running.reconciler.times == [0, 0, 0.5, 1, 1.5, 2]


async def test_controller_stop_waits_for_running_reconciles_and_starts_no_more(log_lines: LogLines):
    async with Running(taking(10), max_concurrent_reconciles=2) as running:
        running.add(*"abcd")
        await asyncio.sleep(5)
        stopping = asyncio.create_task(running.controller.stop(grace=30))
        await turns()
        running.add("e")
        assert running.controller.ready_problem() == "stopping"
        await stopping
        assert now() == 10
        assert running.reconciler.names == ["a", "b"]
        assert running.sample("controller_runtime_reconcile_total", result="success") == 2
        assert running.controller.state is ControllerState.STOPPED
        assert running.controller.ready_problem() == "stopped"
        await running.task
        assert running.sources[0].stopped
    assert not [line for line in log_lines if line["event"] == "grace period over, reconciles cancelled"]


async def test_controller_stopped_twice_applies_the_shorter_of_both_grace_periods(log_lines: LogLines):
    async with Running(Reconciler(resisting("ends"))) as running:
        running.add("a", "b")
        await asyncio.sleep(1)
        async with asyncio.TaskGroup() as group:
            group.create_task(running.controller.stop(grace=60))
            group.create_task(running.controller.stop(grace=30))
        assert now() == 31
        assert (running.reconciler.names, running.reconciler.running) == (["a", "b"], 0)
        await running.task
        assert running.sample("controller_runtime_reconcile_errors_total") == 0
    [line] = [line for line in log_lines if line["event"] == "grace period over, reconciles cancelled"]
    assert (line["count"], line["controller"]) == (2, "test")


@pytest.mark.parametrize(("synced", "seconds"), [(True, 1), (False, 1), (True, 0)])
async def test_controller_stops_immediately_while_idle_or_unsynced_or_starting(synced: bool, seconds: float):
    source = ManualSource(synced=False)
    async with Running(Reconciler(), sources=[source]) as running:
        if not (synced and seconds):
            running.add("a")
        if synced:
            source.sync()
        await asyncio.sleep(seconds)
        await running.controller.stop(grace=30)
        assert now() == seconds
        await running.task
        assert running.reconciler.calls == []
        assert running.controller.state is ControllerState.STOPPED


@pytest.mark.parametrize(("seconds", "rate_limit", "stopped_at"), [(0, 0.01, 1), (20, 0.1, 20)])
async def test_controller_stop_drops_reconciles_waiting_for_the_rate_limit(
    seconds: float, rate_limit: float, stopped_at: float
):
    async with Running(taking(seconds), rate_limit=rate_limit) as running:
        running.add("a", "b", "c")
        await asyncio.sleep(1)
        await running.controller.stop(grace=30)
        assert now() == stopped_at
        assert running.reconciler.names == ["a"]


@pytest.mark.parametrize(("takes", "how"), [(0, "ends"), (1, "succeeds"), (1, "raises")])
async def test_cancelled_controller_ends_after_a_reconcile_that_resists_cancellation(takes: float, how: str):
    async with Running(Reconciler(resisting(how, takes)), max_concurrent_reconciles=1) as running:
        running.add("a", "b")
        await asyncio.sleep(1)
        running.task.cancel()
        await asyncio.wait([running.task])
        assert now() == 1 + takes
        assert running.task.cancelled()
        assert running.reconciler.names == ["a"]
        assert running.sources[0].stopped
        assert running.sample("controller_runtime_reconcile_errors_total") == (how == "raises")
        assert running.controller.state is ControllerState.STOPPED


async def test_controller_run_raises_an_exception_group_with_the_error_of_a_failed_source():
    class Broken(ManualSource):
        async def run(self, queue: WorkQueue[Request]) -> None:
            await asyncio.sleep(5)
            raise OSError("no more of this")

    async with Running(taking(100), sources=[ManualSource(), Broken()]) as running:
        running.add("a")
        await asyncio.wait([running.task])
        assert now() == 5
        error = running.task.exception()
        assert isinstance(error, ExceptionGroup)
        assert "no more of this" in repr(error)
        assert running.reconciler.running == 0
        await running.controller.stop(grace=30)
        assert now() == 5


async def test_controller_leaves_no_task_and_no_timer_after_stop():
    loop = asyncio.get_running_loop()

    async def act(request: Request) -> Result | None:
        if request.name.startswith("bad"):
            raise OSError("bad")
        return Result(requeue_after=3600)

    async with Running(Reconciler(act), sources=[ManualSource(), ManualSource()]) as running:
        running.add(*(f"good {number}" for number in range(50)), *(f"bad {number}" for number in range(50)))
        await asyncio.sleep(5)
        await running.controller.stop(grace=30)
        await running.task
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert not loop.timers
