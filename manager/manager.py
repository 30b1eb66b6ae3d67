"""The manager: what the controllers of one process share, and the order of starting and stopping."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from contextvars import Context
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from manager.cache import Cache
from manager.client import ChildLabel, Client
from manager.controller import Controller
from manager.events import EventRecorder
from manager.health import Health
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport, writes_beside_work
from manager.leader.elector import LeaderElector
from manager.leader.leadership import Leadership
from manager.leader.sharing import Sharing
from manager.leader.terms import KNOWN_WITHIN, Term, Terms
from manager.logs import get_logger
from manager.loop import WorkThreads, ended, threads_from_here
from manager.metrics import Metrics
from manager.program import Program
from manager.runnables import Runnable, Runnables
from manager.runs import History
from manager.settings import SettingValues
from manager.shards.cache_filter import ShardFilters
from manager.shards.ranges import label_key, label_of
from manager.tls.served import ServedCertificate
from manager.watchdog import Watchdog

__all__ = ["CannotStart", "Manager", "Runnable"]

# How long events that are still unsent may hold up the end of the process, in seconds.
EVENTS_FLUSH_TIMEOUT = 2.0

# How long leaving each of the things that are kept may take, in seconds.
KEPT_TIMEOUT = 5.0

# Seconds for which a replica that is to end works on, while others get to know the objects that it leaves.
HANDED_OVER_WITHIN = 10.0

# Seconds after the grace in which all else has to be over: the lease released, Events sent, servers closed.
STOP_MARGIN = 15.0

_log = get_logger("manager")


class CannotStart(Exception):
    """What lives as long as the manager could not be entered: one line that says what, and why."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """What `Manager.keep` was asked for."""

    enter: Callable[[], AbstractAsyncContextManager[Any]]
    name: str | None

    async def onto(self, stack: AsyncExitStack) -> None:
        """Enter it, to be left with `stack`. Raises `CannotStart`."""
        try:
            await stack.enter_async_context(_LeftInTime(self.enter(), self.name or self.enter.__qualname__))
        except Exception as error:
            kind, text = type(error).__name__, str(error)
            # An error of the system speaks for itself; of others, the class says half of what is wrong.
            reason = (text if isinstance(error, OSError) else f"{kind}: {text}") if text else kind
            raise CannotStart(f"cannot start {self.name}: {reason}" if self.name else reason) from error


class _LeftInTime(AbstractAsyncContextManager[Any]):
    """What is kept, but leaving it does not hold up the others for longer than it may take."""

    def __init__(self, kept: AbstractAsyncContextManager[Any], name: str) -> None:
        self._kept = kept
        self._name = name

    async def __aenter__(self) -> Any:
        return await self._kept.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        limit = asyncio.timeout(KEPT_TIMEOUT)
        try:
            async with limit:
                return await self._kept.__aexit__(kind, error, trace)
        except TimeoutError:
            if not limit.expired():
                raise
        _log.warning("could not be closed in time", what=self._name, seconds=KEPT_TIMEOUT)
        return None


class Manager:
    """Runs controllers on shared caches over one connection to one cluster.

    An operator's `setup` finds here what it builds its controllers from: `cache`, `client`, `events`,
    `health`, `leadership`, `metrics`, `program`, `rng`, `settings`. Building a manager starts
    nothing; `run` does, once.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        program: Program,
        metrics: Metrics,
        rng: random.Random,
        identity: str,
        settings: SettingValues | None = None,
        namespaces: Sequence[str] = (),
        elector: LeaderElector | Sharing | None = None,
        terms: Terms | None = None,
        watchdog: Watchdog | None = None,
        graceful_shutdown_timeout: float = 30.0,
        shutdown_delay: float = 0.0,
        unguessable: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """Args:
        transport: carries every request; the caller closes it after `run`.
        program: whose manager this is. Fields are booked under its name, followed by the controller's.
        metrics: where everything is counted.
        rng: the one source of jitter.
        identity: names this replica in Events.
        settings: what operators have declared for themselves; default nothing.
        namespaces: those that are watched; default all.
        elector: takes part in an election with other replicas; None is to work without asking.
        terms: the ranges of the work that are this replica's, where `elector` is a `Sharing`.
        watchdog: ends the process when the stop takes longer than it may; default nobody does.
        graceful_shutdown_timeout: seconds that running reconciles get to finish; 0 cancels them at once.
        shutdown_delay: seconds from the stop until what others call here (webhooks) may end: who is not
            ready any more is still sent requests for a moment. It runs beside the time above.
        unguessable: makes as many random bytes as it is asked for, fit for passwords.
        """
        self.program = program
        self._transport = transport
        self.metrics = metrics
        metrics.build_info.labels(program.name, program.version).set(1)
        self.rng = rng
        self.unguessable = unguessable
        self.settings = settings or SettingValues()
        self.health = Health()
        self.mapper = RestMapper(transport)
        self.cache = Cache(
            transport,
            self.mapper,
            field_manager=program.name,
            namespaces=namespaces,
            metrics=metrics,
            rng=rng,
        )
        child_label = ChildLabel(label_key(program.name), label_of, is_set=terms is not None)
        self.client = Client(
            transport,
            self.mapper,
            self.cache,
            field_manager=program.name,
            former_managers=program.former_names,
            child_label=child_label,
        )
        self.events = EventRecorder(
            transport, component=program.name, instance=identity, metrics=metrics, rng=rng
        )
        self.history = History()
        self.identity = identity
        self.certificates: dict[str, ServedCertificate] = {}
        """What it presents, by what it serves."""
        self.controllers: list[Controller] = []
        self._elector = elector
        self.terms = terms
        self.leadership = Leadership()
        if terms is not None:
            filters = ShardFilters(self.cache, label=child_label.key)
            terms.attend(filters, begun=self._begin_term, ended=self._end_term)
            self.leadership = terms.leadership
        elif isinstance(elector, LeaderElector):
            self.leadership = elector.leadership
        self._watchdog = watchdog or Watchdog()
        self._threads = WorkThreads()
        self._grace = graceful_shutdown_timeout
        self._delay = shutdown_delay
        self._kept: list[_Kept] = []
        self._runnables: list[Runnable] = []
        self._once_threads: set[Future[Any]] = set()
        self._stopping = False
        self._lost = asyncio.Event()
        self.health.readiness.add("shutdown", lambda: "the manager is stopping" if self._stopping else None)
        self.health.readiness.add("informers", lambda: "; ".join(self.cache.problems()) or None)
        if elector is not None:
            self.health.readiness.add("leader-election", lambda: elector.problem)

    @property
    def leader(self) -> str | None:
        """The identity of who leads, as far as this replica knows; None where none does."""
        return self._elector.leader if isinstance(self._elector, LeaderElector) else None

    @property
    def ranges(self) -> str | None:
        """How many ranges of the work are this replica's, as in `5 of 16`; None where it is not shared."""
        if not isinstance(self._elector, Sharing):
            return None
        held = self._elector.held
        return f"{len(held.numbers)} of {held.count}"

    @property
    def stopping(self) -> bool:
        """Whether the stop is under way: not ready any more, and whoever calls should go elsewhere."""
        return self._stopping

    def add_controller(self, controller: Controller) -> None:
        """Run the controller; raises ValueError when there is one of that name already."""
        if any(other.name == controller.name for other in self.controllers):
            raise ValueError(f"there is a controller named {controller.name} already")
        self.controllers.append(controller)
        self.health.readiness.add(f"controller-{controller.name}", controller.ready_problem)
        self.health.liveness.add(f"controller-{controller.name}", controller.stuck_problem)

    def add(self, runnable: Runnable) -> None:
        """Run something else beside the controllers. When it raises, the manager stops and raises it."""
        self._runnables.append(runnable)

    def keep(self, enter: Callable[[], AbstractAsyncContextManager[Any]], *, name: str | None = None) -> None:
        """Keep something open for as long as the manager runs: a connection, a server.

        `enter` is called when `run` is, and makes what is entered before caches and controllers start, in
        the order of these calls. It is left in the opposite order, after the last reconcile has ended, the
        lease is released and Events are sent. When it cannot be entered, the manager does not start, and the
        process ends with one line, in which `name` says what this is.
        """
        self._kept.append(_Kept(enter, name))

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, then stop in order; raises what made it stop early.

        Raises LeadershipLost, the error of a runnable that failed, or CannotStart for what could not be
        entered. Cancelling it ends everything at once, and leaves the lease to expire.
        """
        loop = asyncio.get_running_loop()
        loop.set_default_executor(self._threads)
        writes_beside_work()
        failure: asyncio.Future[None] = loop.create_future()
        try:
            async with AsyncExitStack() as stack:
                if await self._enter_kept(stack, stop):
                    await self._work(stop, failure)
        except Exception as error:
            # What could not be left in order comes second to what made the manager stop.
            if failed := _error(failure):
                raise failed from error
            raise
        finally:
            failed = _error(failure)
        if failed:
            raise failed

    async def _enter_kept(self, stack: AsyncExitStack, stop: asyncio.Event) -> bool:
        """Enter what is kept, to be left with `stack`; False when the stop is asked for before that is done.

        All of it in this task, as cancel scopes and task groups want it.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as patience:

                async def end_with_stop() -> None:
                    await stop.wait()
                    patience.reschedule(loop.time())

                ending = loop.create_task(end_with_stop(), name="stop-asked")
                try:
                    for kept in self._kept:
                        await kept.onto(stack)
                finally:
                    ending.cancel()
                    await asyncio.wait([ending])
        except TimeoutError:
            _log.info("stopped before all had started")
            return False
        return True

    async def _work(self, stop: asyncio.Event, failure: asyncio.Future[None]) -> None:
        shared, led = Runnables(failure), Runnables(failure)
        self._once = Runnables(failure)
        try:
            self._start(shared, led)
            await _first(stop, failure)
            await self._stop(shared, led, failure)
        finally:
            # After a stop in order nothing is left; else this is the stop.
            self._begin_stop()
            await led.stop()
            await self._once.stop()
            await shared.stop()

    def _start(self, shared: Runnables, led: Runnables) -> None:
        # Caches run in every replica, leading or not: a standby that is warm works at once after a takeover.
        shared.start(self.cache.run(), name="cache")
        shared.start(self.events.run(), name="events")
        self._start_work(shared, led, leader_only=False)
        if self._elector is None:
            self._start_work(shared, led, leader_only=True)
        elif isinstance(self._elector, Sharing):
            self._start_controllers(led, leader_only=True)
            shared.start(self._take_part(self._elector), name="leader-election")
            shared.start(self._tell_when_known(self._elector), name="wait-for-caches")
        else:
            shared.start(self._take_part(self._elector), name="leader-election")
            shared.start(self._work_once_elected(self._elector, shared, led), name="wait-for-election")

    async def _take_part(self, elector: LeaderElector | Sharing) -> None:
        try:
            await elector.run()
        except Exception:
            self._lost.set()
            raise

    async def _work_once_elected(self, elector: LeaderElector, shared: Runnables, led: Runnables) -> None:
        await elector.elected.wait()
        if not self._stopping:
            self._start_work(shared, led, leader_only=True)

    async def _tell_when_known(self, sharing: Sharing) -> None:
        """Take ranges when the caches have what there is, or after a while: a kind may not be served."""
        assert self.terms is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(KNOWN_WITHIN):
                await self.cache.wait_synced()
        await self.terms.tell(sharing.prepared)

    def _begin_term(self, term: Term) -> None:
        if term.number == 0 and not self._stopping:
            context = self._work_context()
            context.run(term.enter)
            self._once_threads = context.run(threads_from_here)
            for runnable in self._runnables:
                if runnable.leader_only:
                    self._once.start(runnable.run(), name=runnable.name, context=context.copy())

    async def _end_term(self, term: Term, cut: bool) -> None:
        if term.number == 0:
            await self._once.stop()
            await ended(self._once_threads)
        if cut:
            await self._threads.wait_idle()

    def _start_work(self, shared: Runnables, led: Runnables, *, leader_only: bool) -> None:
        for runnable in self._runnables:
            if runnable.leader_only is leader_only:
                if leader_only:
                    led.start(runnable.run(), name=runnable.name, context=self._work_context())
                else:
                    shared.start(runnable.run(), name=runnable.name)
        self._start_controllers(led, leader_only=leader_only)

    def _start_controllers(self, led: Runnables, *, leader_only: bool) -> None:
        for controller in self.controllers:
            if controller.needs_leader_election is leader_only:
                name = f"controller-{controller.name}"
                led.start(controller.run(), name=name, context=self._work_context())

    def _work_context(self) -> Context:
        """A context for the controllers' work, whose writes end before the lease is released."""
        context = self._threads.context()
        context.run(writes_beside_work, False)
        return context

    async def _stop(self, shared: Runnables, led: Runnables, failure: asyncio.Future[None]) -> None:
        """Work first, then the lease, then the events: while work goes on, no other replica may begin."""
        self._begin_stop()
        served_until = asyncio.get_running_loop().time() + self._delay
        _log.info("stopping", reason=_reason(failure), grace=self._grace)
        grace = self._grace
        if isinstance(self._elector, Sharing):
            began = asyncio.get_running_loop().time()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(grace, HANDED_OVER_WITHIN)):
                    await _unless(self._lost, self._elector.handed_over())
            grace = max(0.0, grace - (asyncio.get_running_loop().time() - began))
        if not await _unless(self._lost, self._end_work(grace=grace)):
            # Another replica may be working already: what is begun must not be finished.
            await self._end_work(grace=0.0)
        await led.stop()
        await self._once.stop()
        if count := self._threads.at_work:
            # Until they end, this process leads. If they do not, the watchdog ends it, and the lease expires.
            _log.warning("waiting for threads, which cannot be cancelled", count=count)
            await self._threads.wait_idle()
        if not self._lost.is_set():
            if self._elector is not None:
                # What has not ended by then, as nobody knew of it, would write beside the next leader.
                self._transport.end_work("the lease is given back")
                await self._elector.release()
            await self.events.flush(EVENTS_FLUSH_TIMEOUT)
            await asyncio.sleep(served_until - asyncio.get_running_loop().time())
        await shared.stop()
        _log.info("stopped")

    def _begin_stop(self) -> None:
        self._stopping = True
        self._watchdog.stopping()
        if isinstance(self._elector, Sharing):
            self._elector.leave()

    async def _end_work(self, *, grace: float) -> None:
        async with asyncio.TaskGroup() as stopping:
            for controller in self.controllers:
                stopping.create_task(controller.stop(grace=grace), name=f"stop-{controller.name}")


async def _first(stop: asyncio.Event, failure: asyncio.Future[None]) -> None:
    """Wait until the stop is asked for or something failed."""
    asked = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((asked, failure), return_when=asyncio.FIRST_COMPLETED)
    finally:
        asked.cancel()
        await asyncio.wait([asked])


async def _unless(event: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work and return True; False when the event is set before it is done, which cancels it."""
    working, waiting = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, waiting):
            task.cancel()
        await asyncio.wait((working, waiting))
    if working.cancelled():
        return False
    working.result()
    return True


def _error(failure: asyncio.Future[None]) -> BaseException | None:
    return failure.exception() if failure.done() else None


def _reason(failure: asyncio.Future[None]) -> str:
    error = _error(failure)
    return "asked to" if error is None else str(error) or type(error).__name__
