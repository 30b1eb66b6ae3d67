"""A manager with everything around it made of small fakes, and a record of what happened."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from manager.controller import Controller, ControllerOptions, Request, Result
from manager.election.coordinator import Coordinator, Leadership
from manager.kube.transport import Transport
from manager.process.manager import STOP_MARGIN, Lifespan, Manager, Runnable
from manager.settings import SettingValues
from manager.telemetry.metrics import Metrics
from manager.telemetry.watchdog import Watchdog
from manager.util.program import Program
from tests.support.scripted_wire import ScriptedWire
from tests.unit.controller.doubles import ManualSource, Reconciler, turns

GRACE = 30.0


class FakeElector(Coordinator):
    """Elects, loses and fails when the test says so."""

    leadership = Leadership()
    problem: str | None = None

    def __init__(self, notes: list[str]) -> None:
        super().__init__()
        self.elected = asyncio.Event()
        self.leadership = Leadership(elected=False)
        self.hands_over = asyncio.Event()
        self.hands_over.set()
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
        self._notes.append("released")
        if not self.ending.done():
            self.ending.set_result(None)
        await asyncio.sleep(0)


class House:
    """A manager, and what happened around it, in order."""

    def __init__(
        self,
        *,
        elect: bool = False,
        grace: float = GRACE,
        delay: float = 0.0,
        settings: SettingValues | None = None,
    ) -> None:
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
            settings=settings,
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
                assert asyncio.current_task() is self.task, "a context ends in the task that opened it"
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
        """Start it, and wait until nothing more happens by itself."""
        self.task = asyncio.create_task(self.manager.run(self.stop), name="manager under test")
        await turns(20)
        if elected:
            assert self.elector is not None
            self.elector.elected.set()
            await turns()

    async def stopped(self) -> None:
        """Ask it to stop, and wait for the end, as `ended` does."""
        self.stop.set()
        await self.ended()

    async def ended(self) -> None:
        """Wait for the end; raises what `run` raised. Nothing may be left behind."""
        assert self.task is not None
        await asyncio.wait([self.task])
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert left == set()
        assert self.wire.in_progress == 0
        self.task.result()


async def begin(source: ManualSource) -> None:
    """Have its controller work on something."""
    source.add("a")
    await turns()
