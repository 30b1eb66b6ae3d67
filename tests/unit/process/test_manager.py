"""The manager's runnables, and the order in which they start and stop."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from manager.api import ObjectMeta
from manager.controller import Controller, ControllerOptions, Request, Result
from manager.election.coordinator import Coordinator, Leadership, LeadershipLost
from manager.kube.transport import Transport
from manager.process.manager import (
    CLOSE_TIMEOUT,
    EVENTS_FLUSH_TIMEOUT,
    STOP_MARGIN,
    CannotStart,
    Lifespan,
    Manager,
    Runnable,
)
from manager.telemetry.metrics import Metrics
from manager.telemetry.watchdog import Watchdog
from manager.util.program import Program
from manager_kinds.core_v1 import Pod
from manager_tools.simulation.loop import ThreadHold
from tests.support.scripted_wire import ScriptedWire, Stall
from tests.unit.conftest import LogLines
from tests.unit.controller.doubles import ManualSource, Reconciler, now, turns

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("log_lines")]


class FakeElector(Coordinator):
    """Elector whose election, loss and failure the test controls."""

    leadership = Leadership()
    problem: str | None = None

    def __init__(self, notes: list[str]) -> None:
        super().__init__()
        self.elected = asyncio.Event()
        self.leadership = Leadership(elected=False)
        self.hands_over = asyncio.Event()
        self.hands_over.set()
        self.release_takes = 0.0
        self.ending: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._notes = notes

    async def run(self) -> None:
        self._notes.append("election began")
        electing = asyncio.get_running_loop().create_task(self._elect())
        try:
            await self.ending
        finally:
            electing.cancel()
            self._notes.append("election ended")

    async def _elect(self) -> None:
        await self.elected.wait()
        self._start_work()

    async def handed_over(self) -> None:
        await self.hands_over.wait()

    async def release(self) -> None:
        await asyncio.sleep(self.release_takes)
        self._notes.append("released")
        if not self.ending.done():
            self.ending.set_result(None)
        await asyncio.sleep(0)


class House:
    """A manager, and the list `notes` of its events in order."""

    def __init__(self, *, elect: bool = False, grace: float = 30.0, delay: float = 0.0) -> None:
        self.notes: list[str] = []
        self.wire = ScriptedWire()
        self.stop = asyncio.Event()
        self.elector = FakeElector(self.notes) if elect else None
        self.rng = random.Random(1)
        self.watchdog = Watchdog(stop_within=max(grace, delay) + STOP_MARGIN)
        self.metrics = Metrics()
        transport = Transport(self.wire, metrics=self.metrics, rng=self.rng, user_agent="test")
        self.manager = Manager(
            transport,
            program=Program("operator-manager", "1"),
            metrics=self.metrics,
            rng=self.rng,
            identity="test",
            coordinator=self.elector,
            watchdog=self.watchdog,
            graceful_shutdown_timeout=grace,
            shutdown_delay=delay,
        )
        flush = self.manager.events.flush

        async def noted_flush(timeout: float) -> bool:
            self.notes.append("events flushed")
            return await flush(timeout)

        self.manager.events.flush = noted_flush  # type: ignore[method-assign]
        self.task: asyncio.Task[None] | None = None

    def runnable(self, name: str, *, leader_only: bool = False) -> None:
        async def run() -> None:
            self.notes.append(f"{name} began")
            try:
                await asyncio.Event().wait()
            finally:
                self.notes.append(f"{name} ended")

        self.manager.add(Runnable(name, run, leader_only=leader_only))

    def lifespan(self, name: str) -> None:
        @asynccontextmanager
        async def opened() -> AsyncIterator[None]:
            self.notes.append(f"{name} opened")
            try:
                yield
            finally:
                assert asyncio.current_task() is self.task, "a lifespan closes in the task that opened it"
                self.notes.append(f"{name} closed")

        self.manager.add(Lifespan(opened))

    def controller(
        self, name: str, seconds: float = 0.0, *, needs_leader_election: bool = True
    ) -> tuple[Controller, ManualSource]:
        """Add a controller whose reconciles take `seconds`."""

        async def act(request: Request) -> Result | None:
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                self.notes.append(f"{name} cancelled")
                raise
            self.notes.append(f"{name} reconciled {request.name}")
            return None

        source = self.reconciling(name, act, needs_leader_election=needs_leader_election)
        return self.manager.controllers[-1], source

    def reconciling(
        self, name: str, act: Callable[[Request], Awaitable[Result | None]], **options: Any
    ) -> ManualSource:
        """Add a controller whose reconciles call `act`."""
        source = ManualSource()
        self.manager.add(
            Controller(
                name,
                Reconciler(act),
                [source],
                options=ControllerOptions(**options),
                metrics=self.metrics,
                rng=self.rng,
            )
        )
        return source

    async def start(self, *, elected: bool = False) -> None:
        """Start the manager, and wait until its start has finished."""
        self.task = asyncio.create_task(self.manager.run(self.stop), name="manager under test")
        await turns(20)
        if elected:
            assert self.elector is not None
            self.elector.elected.set()
            await turns()

    async def stopped(self) -> None:
        """Request the manager's stop, and wait for its end as `ended` does."""
        self.stop.set()
        await self.ended()

    async def ended(self) -> None:
        """Wait for the manager's end; assert that no task or request remains; raise the error of `run`."""
        assert self.task is not None
        await asyncio.wait([self.task])
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert left == set()
        assert self.wire.in_progress == 0
        self.task.result()


async def begin(source: ManualSource) -> None:
    """Start a reconcile of the source's controller."""
    source.add("a")
    await turns()


async def fail_later() -> None:
    await asyncio.sleep(7)
    raise OSError("the disk is full")


async def fail_at_its_stop() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        raise OSError("the disk is full")


async def cancel_itself() -> None:
    raise asyncio.CancelledError


def no_coroutine() -> Coroutine[Any, Any, None]:
    raise TypeError("no coroutine")


def ignoring_cancellation(may_end: asyncio.Event) -> Callable[[Request], Coroutine[Any, Any, None]]:
    async def act(request: Request) -> None:
        while not may_end.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await may_end.wait()

    return act


async def test_manager_stops_runnables_and_lifespans_in_the_reverse_of_their_start_order():
    house = House(elect=True)
    house.lifespan("metrics")
    house.lifespan("channel")
    house.runnable("helper")
    house.runnable("newer helper")
    house.runnable("led", leader_only=True)
    _, source = house.controller("worker", seconds=5.0)
    await house.start(elected=True)
    assert house.notes == [
        *("metrics opened", "channel opened", "helper began", "newer helper began"),
        *("election began", "led began"),
    ]
    await begin(source)
    house.notes.clear()
    await house.stopped()
    assert now() == pytest.approx(5)
    assert house.notes == [
        "worker reconciled a",
        "led ended",
        "released",
        "election ended",
        "events flushed",
        "newer helper ended",
        "helper ended",
        "channel closed",
        "metrics closed",
    ]


@pytest.mark.parametrize(("hands_over_after", "ends"), [(3.0, 4), (3600.0, 11)])
async def test_stopping_manager_starts_reconciles_until_shards_are_handed_over_or_10_seconds_have_passed(
    hands_over_after: float, ends: float
):
    house = House(elect=True)
    _, source = house.controller("worker", seconds=2.0)
    await house.start(elected=True)
    house.elector.hands_over.clear()
    asyncio.get_running_loop().call_later(hands_over_after, house.elector.hands_over.set)
    house.stop.set()
    await asyncio.sleep(ends - 2)
    await begin(source)
    await house.ended()
    assert now() == pytest.approx(ends)
    assert house.notes[-4:] == ["worker reconciled a", "released", "election ended", "events flushed"]


async def test_stopping_manager_serves_webhooks_during_the_shutdown_delay():
    house = House(elect=True, delay=5.0)
    house.runnable("webhooks")
    house.runnable("led", leader_only=True)
    await house.start(elected=True)
    house.stop.set()
    await asyncio.sleep(4.9)
    assert house.manager.stopping
    assert house.manager.health.readiness.problem("shutdown") == "the manager is stopping"
    assert house.manager.health.liveness.report().healthy
    # The next leader does not wait for the flush of Events.
    assert house.notes[-4:] == ["led ended", "released", "election ended", "events flushed"]
    await house.ended()
    assert house.notes[-1] == "webhooks ended"
    assert now() == pytest.approx(5)


async def test_standby_manager_is_ready_and_runs_work_that_needs_no_leader_election():
    house = House(elect=True)
    house.runnable("helper")
    house.runnable("led", leader_only=True)
    waiting, _ = house.controller("waiting")
    working, _ = house.controller("working", needs_leader_election=False)
    await house.start()
    await asyncio.sleep(3600)
    assert house.notes == ["helper began", "election began"]
    assert (waiting.state.value, working.state.value) == ("standby", "running")
    assert house.manager.health.readiness.report().healthy
    house.elector.problem = "cannot read the lease"
    assert house.manager.health.readiness.problem("leader-election") == "cannot read the lease"
    await house.stopped()
    assert "released" in house.notes
    assert "led began" not in house.notes
    assert now() == pytest.approx(3600)


async def test_manager_starts_no_leader_runnable_when_elected_while_stopping():
    house = House(elect=True)
    house.runnable("led", leader_only=True)
    waiting, _ = house.controller("waiting")
    _, source = house.controller("working", seconds=5.0, needs_leader_election=False)
    await house.start()
    await begin(source)
    house.stop.set()
    await asyncio.sleep(1)
    house.elector.elected.set()
    await house.ended()
    assert "working reconciled a" in house.notes
    assert "led began" not in house.notes
    assert waiting.state.value == "stopped"


async def test_manager_stops_cleanly_when_stop_is_requested_during_the_start():
    house = House(elect=True)
    house.lifespan("health")
    house.runnable("helper")
    house.controller("worker")
    house.stop.set()
    await house.start()
    await house.ended()
    assert house.notes[-1] == "health closed"
    assert "released" in house.notes


@pytest.mark.parametrize("elect", [False, True])
@pytest.mark.parametrize(
    ("grace", "delay", "works", "ends"),
    [(10.0, 0.0, 3600.0, 10), (0.0, 0.0, 3600.0, 0), (10.0, 5.0, 8.0, 8), (10.0, 5.0, 2.0, 5)],
    ids=["cancelled after the grace", "without grace", "the delay runs beside", "the delay is longer"],
)
async def test_stop_cancels_reconciles_of_all_controllers_after_one_shared_grace_period(
    grace: float, delay: float, works: float, ends: float, elect: bool
):
    house = House(elect=elect, grace=grace, delay=delay)
    house.runnable("led", leader_only=True)
    made = [house.controller(name, seconds=works) for name in ("one", "two")]
    await house.start(elected=elect)
    assert house.notes[-1] == "led began"
    for controller, source in made:
        assert controller.state.value == "running"
        await begin(source)
    await house.stopped()
    assert now() == pytest.approx(ends)
    assert {controller.state.value for controller, _ in made} == {"stopped"}
    last = "events flushed"
    for name in ("one", "two"):
        how = f"{name} cancelled" if works > grace else f"{name} reconciled a"
        assert house.notes.index(how) < house.notes.index("released" if elect else last)


@pytest.mark.parametrize("leader_only", [False, True])
@pytest.mark.parametrize("run", [fail_later, fail_at_its_stop])
async def test_manager_stops_gracefully_and_raises_when_a_runnable_fails(
    run: Callable[[], Coroutine[Any, Any, None]], leader_only: bool, log_lines: LogLines
):
    house = House(elect=True)
    house.manager.add(Runnable("fragile", run, leader_only=leader_only))
    _, source = house.controller("worker", seconds=10.0)
    await house.start(elected=True)
    assert house.watchdog.due() is None
    source.add("a")
    await asyncio.sleep(7)
    if run is fail_at_its_stop:
        house.stop.set()
    with pytest.raises(OSError, match="the disk is full"):
        await house.ended()
    assert house.watchdog.due() is not None
    assert now() == pytest.approx(10)
    assert "worker reconciled a" in house.notes
    assert "released" in house.notes
    [line] = [line for line in log_lines if line["event"] == "stopping the manager"]
    assert line["reason"] == ("the disk is full" if run is fail_later else "asked to")


@pytest.mark.parametrize(
    ("run", "error"),
    [
        (cancel_itself, RuntimeError("odd was cancelled, but not by its owner")),
        (no_coroutine, TypeError("no coroutine")),
    ],
)
async def test_manager_stops_and_raises_when_a_runnable_cannot_start_or_is_cancelled(
    run: Callable[[], Coroutine[Any, Any, None]], error: Exception
):
    house = House()
    house.lifespan("health")
    house.manager.add(Runnable("odd", run))
    await house.start()
    with pytest.raises(type(error), match=str(error)):
        await house.ended()
    assert (house.notes[0], house.notes[-1]) == ("health opened", "health closed")


@pytest.mark.parametrize(
    "ending", [LeadershipLost("the lease is somebody else's"), KeyError("a fault in the program")], ids=repr
)
async def test_manager_cancels_work_without_releasing_lease_when_leader_election_fails(ending: Exception):
    house = House(elect=True, delay=5.0)
    _, source = house.controller("worker", seconds=3600.0)
    await house.start(elected=True)
    await begin(source)
    house.elector.ending.set_exception(ending)
    with pytest.raises(type(ending)) as raised:
        await house.ended()
    assert raised.value is ending
    assert now() == pytest.approx(0)
    assert house.notes == ["election began", "election ended", "worker cancelled"]


@pytest.mark.parametrize("first", ["a signal", "a failure"])
async def test_leadership_lost_during_the_grace_period_ends_the_grace_period(first: str):
    house = House(elect=True)
    failing = asyncio.Event()

    async def fail() -> None:
        await failing.wait()
        raise ValueError("broken")

    house.manager.add(Runnable("fragile", fail))
    _, source = house.controller("worker", seconds=3600.0)
    await house.start(elected=True)
    await begin(source)
    (house.stop if first == "a signal" else failing).set()
    await asyncio.sleep(3)
    assert "worker cancelled" not in house.notes
    house.elector.ending.set_exception(LeadershipLost("not renewed"))
    expected = (LeadershipLost, "not renewed") if first == "a signal" else (ValueError, "broken")
    with pytest.raises(expected[0], match=expected[1]):
        await house.ended()
    assert now() == pytest.approx(3)
    assert "worker cancelled" in house.notes
    assert "released" not in house.notes


@pytest.mark.parametrize("moment", ["idle", "waiting for the election", "working", "stopping"])
async def test_manager_ends_all_tasks_immediately_when_it_is_cancelled(moment: str):
    house = House(elect=True)
    house.lifespan("health")
    house.runnable("helper")
    _, source = house.controller("worker", seconds=3600.0)
    await house.start()
    if moment != "waiting for the election":
        house.elector.elected.set()
        await turns()
    if moment in {"working", "stopping"}:
        await begin(source)
    if moment == "stopping":
        house.stop.set()
        await asyncio.sleep(1)
    before = now()
    house.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await house.ended()
    assert now() == before
    assert house.watchdog.due() is not None
    assert "released" not in house.notes
    assert {"helper ended", "health closed"} <= set(house.notes)
    assert house.notes.count("worker cancelled") == (moment in {"working", "stopping"})


async def test_manager_refuses_two_controllers_with_the_same_name():
    house = House()
    house.controller("twin")
    with pytest.raises(ValueError, match="another controller already has the name twin"):
        house.controller("twin")


@pytest.mark.parametrize("in_thread", [False, True])
async def test_stopping_manager_keeps_the_lease_while_a_reconcile_runs(log_lines: LogLines, in_thread: bool):
    house = House(elect=True, grace=5.0)
    hold, may_end = ThreadHold(), asyncio.Event()

    async def act(request: Request) -> Result | None:
        await asyncio.to_thread(hold.wait)
        return None

    source = house.reconciling("worker", act if in_thread else ignoring_cancellation(may_end))
    await house.start(elected=True)
    await begin(source)
    house.stop.set()
    await asyncio.sleep(3600)
    assert "released" not in house.notes
    assert "the manager has stopped" not in [line["event"] for line in log_lines]
    assert house.watchdog.due() is not None
    may_end.set()
    hold.release()
    await house.ended()
    assert "released" in house.notes
    assert "the manager has stopped" in [line["event"] for line in log_lines]


async def test_manager_is_not_alive_while_all_workers_of_a_controller_are_stuck():
    house = House()
    may_end = asyncio.Event()
    act = ignoring_cancellation(may_end)
    source = house.reconciling("worker", act, max_concurrent_reconciles=2, reconcile_timeout=300.0)
    await house.start()
    alive = house.manager.health.liveness
    source.add("a")
    await asyncio.sleep(1000)
    assert alive.report().healthy, "the other worker still works"
    source.add("b")
    await asyncio.sleep(359)
    assert alive.report().healthy
    await asyncio.sleep(2)
    assert alive.problem("controller-worker") == (
        "no worker is left: 2 reconciles do not end, including ns/a"
    )
    may_end.set()
    await turns()
    assert alive.report().healthy
    await house.stopped()


async def test_reconciles_without_a_timeout_are_never_considered_stuck():
    house = House()
    source = house.reconciling(
        "worker", lambda _: asyncio.sleep(86400), max_concurrent_reconciles=1, reconcile_timeout=None
    )
    await house.start()
    source.add("a")
    await asyncio.sleep(80000)
    assert house.manager.health.liveness.report().healthy
    await house.stopped()


async def test_reconcile_is_not_repeated_while_a_thread_of_the_last_attempt_runs(log_lines: LogLines):
    house = House()
    attempts = 0
    running = most = 0
    hold, again = ThreadHold(), asyncio.Event()

    def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        hold.wait()
        running -= 1

    async def act(request: Request) -> Result | None:
        nonlocal attempts
        attempts += 1
        if attempts > 1:
            again.set()
        await asyncio.to_thread(work)
        return None

    source = house.reconciling("worker", act, reconcile_timeout=1.0)
    await house.start()
    source.add("a")
    await asyncio.sleep(600)
    source.add("a")
    await asyncio.sleep(600)
    assert attempts == 1
    [line] = [line for line in log_lines if line["event"] == "waiting for threads, which cannot be cancelled"]
    assert (line["name"], line["count"]) == ("a", 1)
    hold.release()
    await again.wait()
    assert most == 1
    await house.stopped()


@pytest.mark.parametrize(
    ("error", "name", "told"),
    [
        (OSError("address in use"), None, "address in use"),
        (OSError("no route"), "the store's channel", "cannot start the store's channel: no route"),
        (TimeoutError(), "the store's channel", "cannot start the store's channel: TimeoutError"),
        (KeyError("x"), "the store's channel", "cannot start the store's channel: KeyError: 'x'"),
        (KeyError("x"), None, "KeyError: 'x'"),
    ],
)
async def test_manager_raises_a_cannot_start_error_when_a_lifespan_fails(
    error: Exception, name: str | None, told: str
):
    house = House()
    house.lifespan("first")
    house.runnable("helper")

    @asynccontextmanager
    async def failing() -> AsyncIterator[None]:
        raise error
        yield

    house.manager.add(Lifespan(failing, name=name))
    house.lifespan("last")
    await house.start()
    with pytest.raises(CannotStart) as raised:
        await house.ended()
    assert str(raised.value) == told
    assert raised.value.__cause__ is error
    assert house.notes == ["first opened", "first closed"]


async def test_manager_stops_cleanly_while_a_lifespan_is_opening():
    house = House()
    house.lifespan("first")
    house.runnable("helper")

    @asynccontextmanager
    async def slow() -> AsyncIterator[None]:
        house.notes.append("slow began")
        try:
            await asyncio.sleep(3600)
        finally:
            house.notes.append("slow gave up")
        yield

    house.manager.add(Lifespan(slow))
    await house.start()
    await house.stopped()
    assert house.notes == ["first opened", "slow began", "slow gave up", "first closed"]
    assert now() == pytest.approx(0)


async def test_stop_ends_before_the_watchdog_when_lease_release_and_events_and_a_lifespan_hang():
    house = House(elect=True, grace=10.0)
    house.elector.release_takes = 3600.0
    house.wire.on("POST", "/api*", Stall())
    _, source = house.controller("worker", seconds=3600.0)

    @asynccontextmanager
    async def stuck() -> AsyncIterator[None]:
        yield
        await asyncio.sleep(3600)

    house.manager.add(Lifespan(stuck, name="the connection to the store"))
    await house.start(elected=True)
    await begin(source)
    house.manager.events.event(Pod(metadata=ObjectMeta(name="a", namespace="b")), "Normal", "Done", "it is")
    await house.stopped()
    assert "worker cancelled" in house.notes
    assert "released" not in house.notes
    assert house.notes.index("events flushed") < house.notes.index("election ended")
    assert 10.0 + EVENTS_FLUSH_TIMEOUT + CLOSE_TIMEOUT < now() < 10.0 + STOP_MARGIN


@pytest.mark.parametrize(
    ("takes", "error", "fails", "seconds"),
    [
        (0.0, OSError("stuck"), False, 0),
        (0.0, OSError("stuck"), True, 0),
        (1.0, TimeoutError("its own"), False, 1),
        (3600.0, None, False, 5),
    ],
)
async def test_lifespan_close_error_is_raised_and_a_hanging_close_is_abandoned(
    takes: float, error: Exception | None, fails: bool, seconds: float, log_lines: LogLines
):
    house = House()
    house.lifespan("first")

    @asynccontextmanager
    async def stuck() -> AsyncIterator[None]:
        yield
        await asyncio.sleep(takes)
        if error is not None:
            raise error

    async def broken() -> None:
        raise ValueError("broken")

    house.manager.add(Lifespan(stuck, name="the connection to the store"))
    if fails:
        house.manager.add(Runnable("broken", broken))
    await house.start()
    house.stop.set()
    if error is None:
        await house.ended()
    else:
        with pytest.raises(ValueError if fails else type(error)) as raised:
            await house.ended()
        assert (raised.value.__cause__ if fails else raised.value) is error
    assert now() == pytest.approx(seconds)
    assert house.notes[-1] == "first closed"
    late = [line["what"] for line in log_lines if line["event"] == "resource not closed in time"]
    assert late == ([] if error else ["the connection to the store"])
