"""A controller: its sources, its queue, and the workers that reconcile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from enum import Enum

from manager.api import GroupVersionKind
from manager.controller.options import ControllerOptions, RateLimiter
from manager.controller.queue import KeyBackoff, QueueItem, WorkQueue
from manager.controller.reconciler import Priority, Reconciler, Request
from manager.controller.source import Source, TickerSource
from manager.controller.worker import ControllerMetrics, Workers
from manager.election.coordinator import Share
from manager.telemetry.logs import get_logger
from manager.telemetry.metrics import Metrics
from manager.telemetry.runs import History, ReconcileRecord, Trigger
from manager.util.rate_limit import TokenBucket

# Seconds past its time limit after which a reconcile, which is cancelled by then, is taken for stuck.
_STUCK = 60.0


class ControllerState(Enum):
    """The states follow one another as they are listed; any may be followed by the last."""

    STANDBY = "standby"
    """Not started, for instance because another replica leads."""

    SYNCING = "syncing"
    """Waiting until its caches hold what exists."""

    RUNNING = "running"
    """Working through the queue."""

    STOPPING = "stopping"
    """Taking no more work; what is running may finish."""

    STOPPED = "stopped"
    """Nothing of it runs any more, and it does not start again."""


class Controller:
    """A controller, which calls a reconciler for every object that its sources request.

    It has no task, queue or subscription until `run`, so a standby controller costs nothing but its warm
    caches.

    `stop` stops it within a grace period. Cancelling `run` stops it at once, reconciles included.
    """

    def __init__(
        self,
        name: str,
        reconciler: Reconciler,
        sources: Iterable[Source],
        *,
        options: ControllerOptions,
        metrics: Metrics,
        rng: random.Random,
        primary: GroupVersionKind | None = None,
        skips_own_writes: bool = False,
        history: History | None = None,
        share: Share | None = None,
    ) -> None:
        """`name` is the `controller` label of metrics and log lines, and the controller's name in flags.

        `primary` is the kind of the requested objects, if they have one. `skips_own_writes` is as in
        `Operator.skips_own_writes`. `history` keeps the reconcile records; default a new one. `share` says
        which objects belong to this replica; default all.
        """
        self.name = name
        self.options = options
        self._reconciler = reconciler
        self._sources = tuple(sources)
        self._metrics = metrics
        self._series = ControllerMetrics(
            metrics, name, workers=options.max_concurrent_reconciles, active=self._active
        )
        self.runs = (history or History()).of(name)
        self._rng = rng
        self._primary = primary
        self._skips_own_writes = skips_own_writes
        self._share = share
        self._state = ControllerState.STANDBY
        self._queue: WorkQueue[Request] | None = None
        self._running: dict[Request, ReconcileRecord] = {}
        self.is_running = self._running.__contains__
        """Whether an object has a run under way."""
        self._workers: Workers | None = None
        self._syncing: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._stopped = asyncio.Event()
        self._log = get_logger("controller")

    @property
    def needs_leader_election(self) -> bool:
        """Return whether only the leader may run it."""
        return self.options.needs_leader_election

    @property
    def state(self) -> ControllerState:
        """Where it is in its life."""
        return self._state

    def ready_problem(self) -> str | None:
        """Why it does not work, in words for people; None when it does, or is in standby."""
        match self._state:
            case ControllerState.STANDBY | ControllerState.RUNNING:
                return None
            case ControllerState.SYNCING:
                # Two sources may wait for the same cache. When none has a problem, work is about to begin: a
                # warm standby that is elected stays ready.
                problems = dict.fromkeys(source.problem for source in self._sources)
                listed = "; ".join(problem for problem in problems if problem is not None)
                return f"waiting for caches: {listed}" if listed else None
            case _:
                return str(self._state.value)

    def stuck_problem(self) -> str | None:
        """Why only another process would get its work done; None while there is a worker that gets any done.

        A reconcile that goes on for a minute after it ran out of time ignores its cancellation, or waits for
        something that does not end. It keeps its worker for good.
        """
        stuck = [] if self._workers is None else self._workers.overdue(_STUCK)
        if len(stuck) < self.options.max_concurrent_reconciles:
            return None
        return f"no worker is left: {len(stuck)} reconciles do not end, that of {stuck[0]} among them"

    @property
    def primary(self) -> GroupVersionKind | None:
        """The kind of the requested objects."""
        return self._primary

    @property
    def queue(self) -> WorkQueue[Request] | None:
        """Return the queue of requests, or None before the start."""
        return self._queue

    @property
    def failing(self) -> int:
        """How many objects there are whose last reconcile failed."""
        return 0 if self._workers is None else self._workers.failing

    @property
    def reconciler(self) -> Reconciler:
        """Return the reconciler that this controller calls."""
        return self._reconciler

    def next_timer(self) -> float | None:
        """Return when the next timer asks for each object, on the loop's clock; None without timers."""
        timers = (each for each in self._sources if isinstance(each, TickerSource) and each.why == "timer")
        return min((each.next_at for each in timers if each.next_at is not None), default=None)

    def running(self, key: Request) -> ReconcileRecord | None:
        """Return the record of the object's reconcile in progress, if any."""
        return self._running.get(key)

    def waiting(self, key: Request) -> QueueItem[Request] | None:
        """Return the queue item of the object's next reconcile, if any."""
        return None if self._queue is None else self._queue.waiting(key)

    def ask(self, key: Request, by: str) -> None:
        """Request a reconcile of an object now, on behalf of a person."""
        trigger = Trigger("person", asyncio.get_running_loop().time(), name=by)
        if self._queue is not None:
            self._queue.add(key, priority=Priority.HIGH, trigger=trigger)

    async def run(self) -> None:
        """Work until stopped; a controller runs once.

        Raises an `ExceptionGroup` with the exceptions of sources.
        """
        if self._state is ControllerState.STOPPED:
            return  # stopped before it was started
        if self._state is not ControllerState.STANDBY:
            raise RuntimeError(f"controller {self.name} was started twice")
        self._log = self._log.bind(controller=self.name)
        self._state = ControllerState.SYNCING
        queue = self._queue = self._new_queue()
        try:
            async with asyncio.TaskGroup() as group:
                # Sources start before caches are in sync, so that the caches know which objects to hold.
                feeds = [
                    group.create_task(source.run(queue), name=f"{self.name}-source-{number}")
                    for number, source in enumerate(self._sources)
                ]
                self._syncing = group.create_task(self._wait_synced(), name=f"{self.name}-sync")
                await asyncio.wait([self._syncing])
                if self._state is ControllerState.SYNCING:  # and not stopped meanwhile
                    await self._work(queue)
                for feed in feeds:
                    feed.cancel()
        finally:
            queue.shut_down()
            self._state = ControllerState.STOPPED
            self._idle.set()
            self._stopped.set()

    def stop_taking_work(self) -> None:
        """Drop the queue and start no more reconciles; running ones continue."""
        match self._state:
            case ControllerState.STANDBY:
                self._state = ControllerState.STOPPED
                self._idle.set()
                self._stopped.set()
            case ControllerState.SYNCING | ControllerState.RUNNING:
                self._state = ControllerState.STOPPING
                assert self._queue is not None
                self._queue.shut_down()
                if self._syncing is not None:
                    self._syncing.cancel()
                self._tell_if_idle()

    async def wait_idle(self) -> None:
        """After `stop_taking_work`: return once no reconcile is running any more."""
        await self._idle.wait()

    async def stop(self, *, grace: float) -> None:
        """Stop taking work, give running reconciles `grace` seconds to finish, and cancel the rest.

        Returns when no task of the controller runs any more: never, if a reconcile resists cancellation. The
        caller has to handle that case, for example by a deadline of its own.
        """
        self.stop_taking_work()
        try:
            async with asyncio.timeout(grace):
                await self.wait_idle()
        except TimeoutError:
            self._log.warning("reconciles cancelled", count=self._active(), grace=grace)
        # Also without a reconcile one may be waiting for the rate limit.
        if self._workers is not None:
            self._workers.cancel()
        await self._stopped.wait()

    async def _wait_synced(self) -> None:
        for source in self._sources:
            await source.wait_synced()

    async def _work(self, queue: WorkQueue[Request]) -> None:
        self._state = ControllerState.RUNNING
        self._workers = Workers(
            self._reconciler,
            queue,
            timeout=self.options.reconcile_timeout,
            metrics=self._series,
            log=self._log,
            rng=self._rng,
            runs=self.runs,
            primary=self._primary,
            skips_own_writes=self._skips_own_writes,
            running=self._running,
            pace=self._new_pace(),
            share=self._share,
            done=self._tell_if_idle,
        )
        workers = self.options.max_concurrent_reconciles
        self._log.info("controller started", workers=workers)
        await self._workers.run(self.name, workers)
        self._log.info("controller stopped")

    def _tell_if_idle(self) -> None:
        if self._state is ControllerState.STOPPING and not self._running:
            self._idle.set()

    def _active(self) -> int:
        return len(self._running)

    def _new_queue(self) -> WorkQueue[Request]:
        options = self.options
        backoff = options.backoff
        if backoff is None:
            backoff = KeyBackoff[Request](base=options.backoff_base, cap=options.backoff_cap, rng=self._rng)
        return WorkQueue(self.name, metrics=self._metrics, backoff=backoff)

    def _new_pace(self) -> RateLimiter | None:
        rate = self.options.rate_limit
        return self.options.rate_limiter if rate is None else TokenBucket(rate=rate, burst=max(1, int(rate)))
