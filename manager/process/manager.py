"""The manager: the resources that the controllers of a process share, and the order of start and stop.

A `Runnable` or a `Lifespan` lives as long as the manager.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from manager.cache import Cache
from manager.client import ChildLabel, Client
from manager.client.child_label import label_key
from manager.controller import Controller
from manager.election.coordinator import Coordinator
from manager.events import EventRecorder
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport, allow_after_stop
from manager.server import HttpServer
from manager.settings import SettingValues
from manager.telemetry.health import Health
from manager.telemetry.logs import get_logger
from manager.telemetry.metrics import Metrics
from manager.telemetry.runs import History
from manager.telemetry.watchdog import Watchdog
from manager.tls.served import ServedCertificate
from manager.util.loop import WorkThreads, ended, threads_from_here, unless
from manager.util.program import Program

if TYPE_CHECKING:
    from aiohttp.web import AbstractRouteDef

    from manager.client.kubernetes import TransportApiClient

# Seconds that each step after the last reconcile may take: release the lease, send Events, close a context.
RELEASE_TIMEOUT, EVENTS_FLUSH_TIMEOUT, CLOSE_TIMEOUT = 7.0, 2.0, 5.0

# Seconds for which a stopping replica continues, while others prepare to take over its objects.
HANDED_OVER_WITHIN = 10.0

# Seconds after the grace period in which everything has to end, even if each of these steps hangs once.
STOP_MARGIN = 15.0

_log = get_logger("manager")


class CannotStart(Exception):
    """A `Lifespan` could not be entered; the message has its name, if there is one, and the reason."""


@dataclass(frozen=True, slots=True)
class Runnable:
    """A task that runs beside the controllers until it is cancelled.

    `run` is called once; with `leader_only`, whenever this replica begins to lead, or takes the first shard.
    """

    name: str
    run: Callable[[], Coroutine[Any, Any, None]]
    leader_only: bool = False


@dataclass(frozen=True, slots=True)
class Lifespan:
    """A context that is open as long as the manager runs, such as a connection or a server.

    `enter` returns the context manager. It is entered before caches and controllers start, in the order of
    registration. It is left in the opposite order, after the last reconcile has ended, the lease is released
    and Events are sent. If it cannot be entered, the process ends with a one-line message that contains
    `name`.
    """

    enter: Callable[[], AbstractAsyncContextManager[Any]]
    name: str | None = None

    async def open(self, stack: AsyncExitStack) -> None:
        """Enter the context, which `stack` will leave. Raises `CannotStart`."""
        try:
            context = self.enter()
            await context.__aenter__()
            stack.push_async_exit(partial(_close_in_time, context, self.name or self.enter.__qualname__))
        except Exception as error:
            kind, text = type(error).__name__, str(error)
            # The message of a system error is sufficient; for other errors, the class is important, too.
            reason = (text if isinstance(error, OSError) else f"{kind}: {text}") if text else kind
            raise CannotStart(f"cannot start {self.name}: {reason}" if self.name else reason) from error


async def _close_in_time(
    context: AbstractAsyncContextManager[Any],
    name: str,
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
) -> bool | None:
    """Leave a context within `CLOSE_TIMEOUT`, so that it does not delay other contexts."""
    limit = asyncio.timeout(CLOSE_TIMEOUT)
    try:
        async with limit:
            return await context.__aexit__(kind, error, trace)
    except TimeoutError:
        if not limit.expired():
            raise
    _log.warning("resource not closed in time", what=name, seconds=CLOSE_TIMEOUT)
    return None


class Runnables:
    """Tasks that run until they are stopped; the first failure is reported to their owner.

    A task group cancels its other tasks at once when one fails. A manager must not: after a failure,
    reconciles still finish, the lease is released and events are sent.
    """

    def __init__(self, failure: asyncio.Future[None]) -> None:
        """Create an empty group; `failure`, which groups may share, gets the first exception of any task."""
        self._failure = failure
        self._tasks: list[asyncio.Task[None]] = []
        self._asked: set[asyncio.Task[None]] = set()

    def start(self, runnable: Runnable, context: Context | None = None) -> None:
        """Run the runnable in the background, under its name in task dumps, and in `context` if given."""
        task = asyncio.get_running_loop().create_task(runnable.run(), name=runnable.name, context=context)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    async def stop(self) -> None:
        """Cancel all running tasks and wait for their end, newest first, however long it takes.

        After a cancellation, call it again. No task is cancelled twice, which would interrupt its clean-up.
        """
        while self._tasks:
            task = self._tasks[-1]
            if task not in self._asked:
                self._asked.add(task)
                task.cancel()
            # `_ended` has already reported its failure, if any.
            await asyncio.wait([task])
            if task in self._tasks:  # unless another caller is stopping it, too
                self._tasks.remove(task)
            self._asked.discard(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error: BaseException | None
        if not task.cancelled():
            error = task.exception()
        elif task in self._asked:
            error = None
        else:
            # A leaked cancellation from a library: the task is missing from now on.
            error = RuntimeError(f"{task.get_name()} was cancelled, but not by its owner")
        if error is not None and not self._failure.done():
            self._failure.set_exception(error)


class Manager:
    """The runtime of controllers with shared caches and one connection to one cluster.

    An operator's `setup` creates its controllers with `cache`, `client`, `events`, `health`, `leadership`,
    `metrics`, `program`, `rng` and `settings`. Creating a manager starts nothing; `run` does, once.
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
        coordinator: Coordinator | None = None,
        watchdog: Watchdog | None = None,
        graceful_shutdown_timeout: float = 30.0,
        shutdown_delay: float = 0.0,
        unguessable: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """Create a manager.

        Args:
            transport: sends every request; the caller closes it after `run`.
            program: the program of this manager. Field managers consist of its name and the controller's.
            metrics: the registry of all metrics.
            rng: the only source of jitter.
            identity: the name of this replica in Events.
            settings: the values of the settings that operators declare; default none.
            namespaces: the watched namespaces; default all.
            coordinator: divides the work between replicas; by default, this replica does all of it.
            watchdog: ends the process if the stop takes too long; default none.
            graceful_shutdown_timeout: seconds that running reconciles get to finish; 0 cancels them at once.
            shutdown_delay: seconds from the stop until webhooks may end, because callers still send requests
                for a moment after the end of readiness. It runs in parallel with the timeout above.
            unguessable: returns random bytes that are fit for passwords.
        """
        self.program = program
        self._transport = transport
        self.metrics = metrics
        metrics.build_info.labels(program.name, program.version).set(1)
        self.rng = rng
        self.unguessable = unguessable
        self.settings = settings or SettingValues()
        self.health = Health()
        self.coordinator = coordinator or Coordinator()
        self.leadership = self.coordinator.leadership
        self._is_alone = coordinator is None
        self.mapper = RestMapper(transport)
        self.cache = Cache(
            transport,
            self.mapper,
            field_manager=program.name,
            namespaces=namespaces,
            metrics=metrics,
            rng=rng,
        )
        self.coordinator.attach(self)
        child_label = ChildLabel(label_key(program.name), is_set=self.coordinator.owned is not None)
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
        """The presented certificates, by the name of the server."""
        self.routes: list[AbstractRouteDef] = []
        """The routes that operators add to the metrics server."""
        self.controllers: list[Controller] = []
        self._watchdog = watchdog or Watchdog()
        self._threads = WorkThreads()
        self._grace = graceful_shutdown_timeout
        self._delay = shutdown_delay
        self._lifespans: list[Lifespan] = []
        self._runnables: list[Runnable] = []
        self._shared: Runnables
        """Run in every replica."""
        self._controlling: Runnables
        self._led: Runnables
        """Run in the leader alone."""
        self._led_threads: set[Future[Any]] = set()
        self._stopping = False
        self._lost = asyncio.Event()
        self.health.readiness.add("shutdown", lambda: "the manager is stopping" if self._stopping else None)
        self.health.readiness.add("informers", lambda: "; ".join(self.cache.problems()) or None)
        if coordinator is not None:
            self.health.readiness.add("leader-election", lambda: coordinator.problem)
        # Caches run in every replica, leading or not: a standby with warm caches works at once after a
        # takeover.
        self.add(Runnable("cache", self.cache.run))
        self.add(Runnable("events", self.events.run))

    @property
    def stopping(self) -> bool:
        """Return whether the manager is stopping: it is not ready, and clients should go elsewhere."""
        return self._stopping

    def kubernetes_client(self) -> TransportApiClient:
        """Return a kubernetes-asyncio `ApiClient` on this transport; see `Client.kubernetes_client`."""
        return self.client.kubernetes_client()

    def add(self, part: Runnable | Lifespan | Controller) -> None:
        """Add a component that lives as long as the manager.

        If a `Runnable` raises, the manager stops and raises the error. Raises ValueError for a second
        controller with the same name.
        """
        match part:
            case Runnable():
                self._runnables.append(part)
            case Lifespan():
                self._lifespans.append(part)
            case _:
                if any(other.name == part.name for other in self.controllers):
                    raise ValueError(f"another controller already has the name {part.name}")
                self.controllers.append(part)
                self.health.readiness.add(f"controller-{part.name}", part.ready_problem)
                self.health.liveness.add(f"controller-{part.name}", part.stuck_problem)

    def add_routes(self, routes: Iterable[AbstractRouteDef], *, server: HttpServer | None = None) -> None:
        """Serve handlers of aiohttp.web in every replica, from the manager's start to its end.

        Without a `server`, the metrics server serves them, with the same tokens and rights as for `/metrics`.
        A separate `server` accepts every client; without an address, it is off. Call this before `run`.
        """
        if server is None:
            self.routes += routes
            return
        wanted, certificate, address = list(routes), server.certificate(), server.address
        if address is None:
            return
        if certificate is not None:
            self.certificates[server.name] = certificate

        def serving() -> AbstractAsyncContextManager[Any]:
            from manager.server.server import serve  # noqa: PLC0415 - aiohttp.web: 75 ms, 9 MB

            options: dict[str, Any] = {"certificate": certificate, "limits": server.limits}
            return serve(server.name, address, wanted, leaving=lambda: self._stopping, **options)

        self.add(Lifespan(serving, name=f"the server of {server.name}"))

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, then stop in order; raises the error that ended it early.

        Raises LeadershipLost, the error of a failed runnable, or CannotStart for a context that could not be
        entered. A cancellation ends everything at once, and leaves the lease to expire.
        """
        loop = asyncio.get_running_loop()
        loop.set_default_executor(self._threads)
        allow_after_stop()
        failure: asyncio.Future[None] = loop.create_future()
        try:
            async with AsyncExitStack() as stack:
                if await self._open(stack, stop):
                    await self._work(stop, failure)
        except Exception as error:
            # The reason for the stop is more important than an error of a context that was left.
            if failed := _error(failure):
                raise failed from error
            raise
        finally:
            failed = _error(failure)  # read it even if a cancellation comes first
        if failed:
            raise failed

    async def _open(self, stack: AsyncExitStack, stop: asyncio.Event) -> bool:
        """Enter all contexts, which `stack` will leave; return False if `stop` is set meanwhile.

        All are entered in this task, because cancel scopes and task groups require it.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as patience:

                async def end_with_stop() -> None:
                    await stop.wait()
                    patience.reschedule(loop.time())

                ending = loop.create_task(end_with_stop(), name="stop-asked")
                try:
                    for lifespan in self._lifespans:
                        await lifespan.open(stack)
                finally:
                    ending.cancel()
                    await asyncio.wait([ending])
        except TimeoutError:
            _log.info("the manager stopped before its start was complete")
            return False
        return True

    async def _work(self, stop: asyncio.Event, failure: asyncio.Future[None]) -> None:
        self._shared, self._controlling, self._led = (Runnables(failure) for _ in range(3))
        try:
            for runnable in self._runnables:
                if not runnable.leader_only:
                    self._shared.start(runnable)
            self.start_controllers(leader_only=False)
            self._shared.start(Runnable("leader-election", self._coordinate))
            await unless(stop, asyncio.wait([failure]))
            await self._stop(failure)
        finally:
            # After an orderly stop, nothing is left to stop; otherwise, this stops everything.
            self._begin_stop()
            await self._controlling.stop()
            await self._led.stop()
            await self._shared.stop()

    async def _coordinate(self) -> None:
        try:
            await self.coordinator.run()
        except Exception:
            self._lost.set()
            raise

    # The methods of `Work`, by which the coordinator starts and stops it.

    def start_controllers(self, *, leader_only: bool = True) -> None:
        """Start the controllers that need an election; with `leader_only` False, those that need none."""
        for controller in self.controllers:
            if controller.needs_leader_election is leader_only and not self._stopping:
                runnable = Runnable(f"controller-{controller.name}", controller.run)
                self._controlling.start(runnable, self._work_context())

    def start_leader_runnables(self, enter: Callable[[], object] = lambda: None) -> None:
        """Call `enter` in a new context, and start the leader's runnables in copies of that context."""
        if self._stopping:
            return
        context = self._work_context()
        context.run(enter)
        self._led_threads = context.run(threads_from_here)
        for runnable in self._runnables:
            if runnable.leader_only:
                self._led.start(runnable, context.copy())

    async def stop_leader_runnables(self) -> None:
        """Cancel the leader's runnables, and return when they and their threads have ended."""
        await self._led.stop()
        await ended(self._led_threads)

    async def wait_for_threads(self) -> None:
        """Wait until no thread works for a cancelled reconcile."""
        await ended(self._threads.busy)

    def _work_context(self) -> Context:
        """Return a context for the controllers' work, which can write only before the lease is released."""
        context = self._threads.context()
        context.run(allow_after_stop, False)
        return context

    async def _stop(self, failure: asyncio.Future[None]) -> None:
        """Stop the work, then release the lease for other replicas, then send the remaining Events."""
        self._begin_stop()
        began, error = asyncio.get_running_loop().time(), _error(failure)
        reason = "asked to" if error is None else str(error) or type(error).__name__
        _log.info("stopping the manager", reason=reason, grace=self._grace)
        with suppress(TimeoutError):
            async with asyncio.timeout(min(self._grace, HANDED_OVER_WITHIN)):
                await unless(self._lost, self.coordinator.handed_over())
        grace = max(0.0, self._grace - (asyncio.get_running_loop().time() - began))
        if await unless(self._lost, self._end_work(grace=grace)) is None:
            # Another replica may already be working, so running reconciles must not finish.
            await self._end_work(grace=0.0)
        await self._controlling.stop()
        await self._led.stop()
        if busy := self._threads.busy:
            # Until the threads end, this process leads. If they do not, the watchdog ends it, and the lease
            # expires.
            _log.warning("waiting for threads, which cannot be cancelled", count=len(busy))
            await ended(busy)
        if not self._lost.is_set():
            if not self._is_alone:
                # Forgotten tasks that continue would write beside the next leader.
                self._transport.fence_work("the lease is given back")
            with suppress(TimeoutError):
                async with asyncio.timeout(RELEASE_TIMEOUT):  # afterwards, the lease expires
                    await self.coordinator.release()
            await self.events.flush(EVENTS_FLUSH_TIMEOUT)
            await asyncio.sleep(began + self._delay - asyncio.get_running_loop().time())
        await self._shared.stop()
        _log.info("the manager has stopped")

    def _begin_stop(self) -> None:
        self._stopping = True
        self._watchdog.stopping()
        self.coordinator.leave()

    async def _end_work(self, *, grace: float) -> None:
        async with asyncio.TaskGroup() as stopping:
            for controller in self.controllers:
                stopping.create_task(controller.stop(grace=grace), name=f"stop-{controller.name}")


def _error(failure: asyncio.Future[None]) -> BaseException | None:
    return failure.exception() if failure.done() else None
