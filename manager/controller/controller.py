"""A controller: its sources, its queue, and the workers that reconcile."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable, Hashable, Iterable
from collections.abc import Set as AbstractSet
from contextlib import nullcontext
from enum import Enum
from typing import TYPE_CHECKING, NoReturn

from manager.api import GroupVersionKind
from manager.api.rights import Undeclared
from manager.cache import own_writes_from_here
from manager.controller.failure import Cause, FailingObjects, Failure, FailureGroup, explain
from manager.controller.queue import KeyBackoff, QueueItem, WorkQueue
from manager.controller.reconciler import ControllerOptions, Priority, Reconciler, Request, Result
from manager.controller.source import Source, TickerSource
from manager.election.coordinator import OwnedObjects
from manager.kube.errors import NotFound
from manager.telemetry.logs import get_logger, reset_reconcile_log, set_reconcile_log
from manager.telemetry.metrics import Metrics, counting, observing
from manager.telemetry.runs import (
    LONGEST_TEXT,
    History,
    ReconcileRecord,
    Trigger,
    enter_record,
    leave_record,
)
from manager.telemetry.tracing import ReconcileTrace, current_tracer
from manager.util.author_code import line_in
from manager.util.loop import Deadlines, ended, threads_from_here
from manager.util.rate_limit import Repeats, TokenBucket

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

_STUCK = 60.0
"""Seconds after the time limit of a cancelled reconcile; then the reconcile counts as stuck."""

_PERSISTENT = 10
"""The number of consecutive conflicts, in some five seconds, after which one more is a real failure."""

_REPORT_WITHIN = 5.0
"""Seconds in which a reconciler may report its failure before its worker continues."""

_COUNTED = ("success", "requeue", "requeue_after", "error")


class ControllerMetrics:
    """Metrics of reconciles; all series exist from the start, so that an alert sees the first increase."""

    def __init__(self, metrics: Metrics, name: str, *, workers: int, active: Callable[[], float]) -> None:
        """Create the series. Each scrape calls `active`, which returns the number of running reconciles."""
        self._outcomes = {each: counting(metrics.reconcile_total.labels(name, each)) for each in _COUNTED}
        self._failed = counting(metrics.reconcile_errors.labels(name))
        self._failures = {
            "terminal": counting(metrics.terminal_reconcile_errors.labels(name)),
            "panic": counting(metrics.reconcile_panics.labels(name)),
        }
        self._timed_out = counting(metrics.reconcile_timeouts.labels(name))
        self._skipped = counting(metrics.reconciles_skipped.labels(name))
        self._time = observing(metrics.reconcile_time.labels(name))
        self._event_latency = observing(metrics.event_to_reconcile.labels(name))
        self.failing = metrics.failing_objects.labels(name).set_function
        metrics.max_concurrent_reconciles.labels(name).set(workers)
        metrics.active_workers.labels(name).set_function(active)

    def count(self, run: ReconcileRecord, exemplar: dict[str, str] | None = None) -> None:
        """Count a finished reconcile; `exemplar` identifies its trace."""
        for trigger in run.triggers:
            if trigger.why in ("event", "freed"):
                self._event_latency(run.started - trigger.at)
                break
        self._time(run.seconds, exemplar)
        if (count := self._outcomes.get(run.outcome)) is not None:
            count()
        if run.skipped:
            self._skipped()
        if run.failure:
            self._failed()
            if run.timed_out:
                self._timed_out()
            if (count := self._failures.get(run.failure)) is not None:
                count()


class ControllerState(Enum):
    """The states of a controller, in their order; STOPPED may follow any of them."""

    STANDBY = "standby"
    """Not started, for instance because another replica leads."""

    SYNCING = "syncing"
    """Waiting until its caches have all existing objects."""

    RUNNING = "running"
    """Reconciling the keys of the queue."""

    STOPPING = "stopping"
    """Starting no more reconciles; the running ones may finish."""

    STOPPED = "stopped"
    """Finished for good: no task of the controller runs."""


class Controller:
    """A controller, which calls a reconciler for every object that its sources request.

    It has no task, queue or subscription before `run`, so a standby controller costs only its warm caches.

    `stop` stops it within a grace period. Cancelling `run` stops it at once, including its reconciles.

    | result                       | counted as          | back-off  | next reconcile           |
    |------------------------------|---------------------|-----------|--------------------------|
    | None, or an empty result     | success             | forgotten | when something changes   |
    | requeue_after                | requeue_after       | forgotten | after these seconds      |
    | requeue, or requeue_after<=0 | requeue             | grows     | after the back-off       |
    | TerminalError                | error, and terminal | stays     | when something changes   |
    | Undecodable (the object)     | error, and terminal | stays     | when something changes   |
    | any other exception          | error               | grows     | after the back-off       |
    | an exception due to a bug    | error, and panic    | grows     | after the back-off       |
    | a time-out                   | error, and timeout  | grows     | after the back-off       |

    A change always triggers a reconcile at once. If an object waits for a dependency to answer, its reconcile
    may be repeated before the end of its back-off (see `FailingObjects`).
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
        owned_objects: OwnedObjects | None = None,
    ) -> None:
        """Create a controller. `name` is its label in metrics and logs, and its name in flags.

        `primary` is the kind of the requested objects, if any. For `skips_own_writes` see `Operator`.
        `history` keeps the reconcile records; by default it is a new one. `owned_objects` decides which
        objects this replica owns; by default all.
        """
        self.name = name
        self.options = options
        self.reconciler = reconciler
        self.primary = primary
        self.state = ControllerState.STANDBY
        self.queue: WorkQueue[Request] | None = None
        """The queue of requests, None before the start."""
        self._queue: WorkQueue[Request]
        self._failing: FailingObjects
        self.runs = (history or History()).of(name)
        self._sources = tuple(sources)
        self._metrics = metrics
        self._rng = rng
        self._timeout = options.reconcile_timeout
        self._skips_own_writes = skips_own_writes
        self._owned_objects = owned_objects
        self._running: dict[Request, ReconcileRecord] = {}
        self.is_running = self._running.__contains__
        """Whether an object has a reconcile under way."""
        self.running = self._running.get
        """Return the record of an object's reconcile in progress, if any."""
        self._series = ControllerMetrics(
            metrics, name, workers=options.max_concurrent_reconciles, active=self._running.__len__
        )
        rate = options.rate_limit
        self._pace = None if rate is None else TokenBucket(rate=rate, burst=max(1, int(rate)))
        # While few objects fail, the first failure of each is logged.
        self._lines = TokenBucket(rate=0.1, burst=30)
        self._races = Repeats()
        self._deadlines = Deadlines()
        self._workers: list[asyncio.Task[None]] = []
        self._syncing: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._stopped = asyncio.Event()
        self._log = get_logger("controller")

    @property
    def needs_leader_election(self) -> bool:
        """Return whether only the leader may run the controller."""
        return self.options.needs_leader_election

    def ready_problem(self) -> str | None:
        """Return the reason why the controller does not work; None if it works or waits for its start."""
        match self.state:
            case ControllerState.STANDBY | ControllerState.RUNNING:
                return None
            case ControllerState.SYNCING:
                # Two sources may wait for the same cache. Without a problem, the controller starts in a
                # moment: a warm standby that is elected stays ready.
                problems = dict.fromkeys(source.problem for source in self._sources)
                listed = "; ".join(problem for problem in problems if problem is not None)
                return f"waiting for caches: {listed}" if listed else None
            case _:
                return str(self.state.value)

    def stuck_problem(self) -> str | None:
        """Return the reason why only a restart of the process helps; None while any worker makes progress.

        Only a reconcile that continues for a minute after its time limit counts as blocking its worker.
        """
        if self._timeout is None or not self._running:
            return None
        since = asyncio.get_running_loop().time() - self._timeout - _STUCK
        stuck = [request for request, run in self._running.items() if run.started < since]
        if len(stuck) < self.options.max_concurrent_reconciles:
            return None
        return f"no worker is left: {len(stuck)} reconciles do not end, including {stuck[0]}"

    @property
    def failing(self) -> int:
        """Return the number of objects whose last reconcile failed, without conflicts that are retried."""
        return 0 if self.queue is None else len(self._failing)

    def next_timer(self) -> float | None:
        """Return the loop time at which the next timer requests every object; None without timers."""
        timers = (each for each in self._sources if isinstance(each, TickerSource) and each.why == "timer")
        return min((each.next_at for each in timers if each.next_at is not None), default=None)

    def waiting(self, key: Request) -> QueueItem[Request] | None:
        """Return the queue item of the object's next reconcile, if any."""
        return None if self.queue is None else self.queue.waiting(key)

    def ask(self, key: Request, by: str) -> None:
        """Request a reconcile of an object now, for the user `by`; do nothing before the start."""
        trigger = Trigger("person", asyncio.get_running_loop().time(), name=by)
        if self.queue is not None:
            self.queue.add(key, priority=Priority.HIGH, trigger=trigger)

    async def run(self) -> None:
        """Run the controller until it is stopped; it can run only once.

        Raises an `ExceptionGroup` with the exceptions of sources.
        """
        if self.state is ControllerState.STOPPED:
            return  # stopped before the start
        if self.state is not ControllerState.STANDBY:
            raise RuntimeError(f"controller {self.name} was started twice")
        self._log = self._log.bind(controller=self.name)
        self.state = ControllerState.SYNCING
        options = self.options
        backoff = KeyBackoff[Request](base=options.backoff_base, cap=options.backoff_cap, rng=self._rng)
        queue = WorkQueue[Request](self.name, metrics=self._metrics, backoff=backoff)
        self.queue = self._queue = queue
        self._failing = FailingObjects(queue, rng=self._rng)
        self._series.failing(self._failing.__len__)
        try:
            async with asyncio.TaskGroup() as group:
                # Sources start before the caches are in sync, so that the caches know which objects to keep.
                feeds = [
                    group.create_task(source.run(queue), name=f"{self.name}-source-{number}")
                    for number, source in enumerate(self._sources)
                ]
                self._syncing = group.create_task(self._wait_synced(), name=f"{self.name}-sync")
                await asyncio.wait([self._syncing])
                if self.state is ControllerState.SYNCING:  # and not stopped meanwhile
                    await self._work(queue)
                for feed in feeds:
                    feed.cancel()
        finally:
            queue.shut_down()
            self.state = ControllerState.STOPPED
            self._stopped.set()

    async def stop(self, *, grace: float) -> None:
        """Start no more reconciles, give running ones `grace` seconds to finish, and cancel the rest.

        Returns when all tasks of the controller have ended, so never if a reconcile ignores its cancellation.
        """
        match self.state:
            case ControllerState.STANDBY:
                self.state = ControllerState.STOPPED
                self._stopped.set()
            case ControllerState.SYNCING | ControllerState.RUNNING:
                self.state = ControllerState.STOPPING
                assert self.queue is not None
                self.queue.shut_down()
                if self._syncing is not None:
                    self._syncing.cancel()
        try:
            async with asyncio.timeout(grace):
                while self._running:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            self._log.warning(
                "grace period over, reconciles cancelled", count=len(self._running), grace=grace
            )
        # A worker may also wait for the rate limit without reconciling.
        for worker in self._workers:
            worker.cancel()
        await self._stopped.wait()

    async def _wait_synced(self) -> None:
        for source in self._sources:
            await source.wait_synced()

    async def _work(self, queue: WorkQueue[Request]) -> None:
        self.state = ControllerState.RUNNING
        count = self.options.max_concurrent_reconciles
        self._log.info("controller started", workers=count)
        try:
            async with asyncio.TaskGroup() as group:
                names = [f"{self.name}-worker-{number}" for number in range(count)]
                self._workers = [
                    group.create_task(self._reconcile_keys(queue, name), name=name) for name in names
                ]
        finally:
            self._deadlines.close()
        self._log.info("controller stopped")

    async def _reconcile_keys(self, queue: WorkQueue[Request], name: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        # A reconciler may swallow a cancellation, but its worker ends nevertheless.
        while not task.cancelling() and (item := await queue.get()) is not None:
            try:
                # In a dump of tasks, the name shows the object, which helps most if its reconcile does not
                # end.
                task.set_name(f"{name} {item.key}")
                if self._owned_objects is None and self._pace is None:
                    await self.reconcile(item)
                else:
                    await self._reconcile_when_due(item)
            finally:
                task.set_name(name)
                queue.done(item.key)
                if not self._running:
                    self._idle.set()
            # A reconcile that waits for nothing lets no other task run; many of them in a row would block the
            # loop, and the renewal of the lease.
            await asyncio.sleep(0)

    async def _reconcile_when_due(self, item: QueueItem[Request]) -> None:
        """Reconcile an object when the rate limit allows it, if this replica owns the object."""
        owned = self._owned_objects
        async with nullcontext(True) if owned is None else owned.work_on(item.key) as ours:
            if not ours:
                # Another replica owns the object: forget its failures here.
                self._queue.forget(item.key)
                self._failing.ended(item.key)
                return
            if self._pace is not None:
                await self._pace.acquire()
            if not self._queue.is_shut_down:
                await self.reconcile(item)

    async def reconcile(self, item: QueueItem[Request]) -> None:
        """Reconcile once. Raises only exceptions that should end the worker, such as its cancellation.

        Threads that the reconciler has started belong to the reconcile. If they outlast it, for example after
        a timeout, the worker waits for them, because no other reconcile may work on the object meanwhile.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        key = item.key
        run = ReconcileRecord(
            self.name,
            key.namespace,
            key.name,
            f"{self._rng.getrandbits(64):016x}",
            started,
            started - item.since,
            self._queue.retries(key),
            item.priority,
            item.triggers,
            item.triggered,
        )
        log = self._log.bind(namespace=key.namespace, name=key.name, reconcile_id=run.id)
        token, run_token = set_reconcile_log(log), enter_record(run)
        tracer = current_tracer.get()
        trace = None if tracer is None else tracer.reconcile(run)
        own_writes = own_writes_from_here() if self._skips_own_writes else None
        threads = threads_from_here()
        self._running[key] = run
        outcome = "cancelled"
        try:
            outcome = await self._attempt(item, run, own_writes, log)
            if threads:
                log.warning("waiting for threads, which cannot be cancelled", count=len(threads))
                await ended(threads)
        finally:
            del self._running[key]
            run.seconds = loop.time() - started
            run.outcome = outcome
            self._ended(run, log, trace)
            leave_record(run_token)
            reset_reconcile_log(token)

    def _ended(self, run: ReconcileRecord, log: FilteringBoundLogger, trace: ReconcileTrace | None) -> None:
        """Report a finished reconcile to metrics, trace, log and history."""
        self._series.count(run, None if trace is None else trace.exemplar)
        if trace is not None:
            trace.ended()
        if log.is_enabled_for(logging.DEBUG):
            again = {} if run.next_in is None else {"next_in": round(run.next_in, 3)}
            log.debug(
                "reconciled",
                why=run.why,
                result=run.outcome,
                **again,
                took=round(run.seconds, 4),
                writes=run.writes,
            )
        run.gone = None if self.primary is None else run.shows_gone(self.primary.kind)
        self.runs.add(run)

    async def _attempt(
        self,
        item: QueueItem[Request],
        run: ReconcileRecord,
        own_writes: AbstractSet[Hashable] | None,
        log: FilteringBoundLogger,
    ) -> str:
        """Call the reconciler once; return the outcome for the metrics, such as `success`."""
        limit = self._deadlines.start(math.inf if self._timeout is None else self._timeout)
        try:
            try:
                result = await self.reconciler.reconcile(item.key)
            except asyncio.CancelledError as cancelled:
                if limit.missed():
                    self._ran_out_of_time(cancelled)
                raise
            finally:
                self._deadlines.stop(limit)
            if limit.expired:
                # The reconciler has swallowed its cancellation, so its progress is unknown.
                self._ran_out_of_time(None)
            # Only after a success: a failed reconcile may not have read the results of its own writes.
            if own_writes is not None and self._queue.discard_if_only(item.key, own_writes):
                run.skipped = True
            return self._finish(item, run, result)
        except BaseException as error:
            if _is_meant_for_worker(error):
                raise
            self._fail(item, run, error, timed_out=limit.expired, log=log)
            await self._report(item.key, error, log)
            return "error"

    def _ran_out_of_time(self, cause: BaseException | None) -> NoReturn:
        raise TimeoutError(f"it took longer than {self._timeout:g} s") from cause

    async def _report(self, key: Request, error: BaseException, log: FilteringBoundLogger) -> None:
        """Call the reconciler's `failed` for the object, before another worker may get the object."""
        if (report := getattr(self.reconciler, "failed", None)) is None:
            return
        try:
            async with asyncio.timeout(_REPORT_WITHIN):
                await report(key, error)
        except BaseException as problem:
            if _is_meant_for_worker(problem):
                raise
            log.debug("cannot report the reconcile's failure in the object's status", error=explain(problem))

    def _finish(self, item: QueueItem[Request], run: ReconcileRecord, result: Result | None) -> str:
        if result is not None and not isinstance(result, Result):
            raise TypeError(f"a reconciler returns a Result or None, not {result!r}")
        self._log_recovery(self._failing.ended(item.key))
        if result is None:
            self._queue.forget(item.key)
            return "success"
        priority = item.priority if result.priority is None else result.priority
        if result.requeue_after is not None and result.requeue_after > 0:
            self._queue.forget(item.key)
            after = result.requeue_after
            if result.jitter:
                after *= 1 + result.jitter * self._rng.random()
            trigger = Trigger("requeue", asyncio.get_running_loop().time())
            self._queue.add(item.key, priority=priority, after=after, trigger=trigger)
            run.next_in = after
            return "requeue_after"
        if result.requeue or result.requeue_after is not None:
            run.next_in = self._queue.add_rate_limited(item.key, priority=priority)
            return "requeue"
        self._queue.forget(item.key)
        return "success"

    def _fail(
        self,
        item: QueueItem[Request],
        run: ReconcileRecord,
        error: BaseException,
        *,
        timed_out: bool,
        log: FilteringBoundLogger,
    ) -> None:
        failure = Failure.of(error, primary=self.primary, key=item.key)
        text = explain(error)
        run.error_type = type(error).__name__
        # An unknown exception's message may quote parts of an object that the record's readers must not see.
        told = failure < Failure.UNEXPECTED or isinstance(error, Undeclared)
        run.error = text[:LONGEST_TEXT] if told else f"{run.error_type}; see the manager's log"
        run.failure, run.timed_out = failure.name.lower(), timed_out
        retries = self._queue.retries(item.key)
        fields: dict[str, object] = {"error": text, "error_type": run.error_type}
        if at := line_in(error.__traceback__):
            fields["at"] = at
        if failure is not Failure.TERMINAL:
            retry_in = run.next_in = self._queue.add_rate_limited(item.key, priority=item.priority)
            fields.update(retries=retries, retry_in=round(retry_in, 3))
        if failure is Failure.RACE and retries < _PERSISTENT:
            self._log_recovery(self._failing.ended(item.key))  # the server has answered
            # A NotFound is no news: the object is deleted, most likely, and the cache does not know that yet.
            times = None if isinstance(error, NotFound) else self._races.count()
            log.log(logging.DEBUG if times is None else logging.INFO, "reconcile failed", **fields)
            return
        if timed_out:
            fields["timeout"] = self._timeout
        level = logging.DEBUG
        if self._is_news(item.key, Cause.of(error), fields):
            if timed_out or failure.has_traceback:
                fields["exc_info"] = error
            level = logging.ERROR
        log.log(level, "reconcile timed out" if timed_out else "reconcile failed", **fields)

    def _log_recovery(self, group: FailureGroup | None) -> None:
        # A cause that comes and goes all the time is only counted.
        if group is not None and self._lines.try_acquire():
            self._failing.forget_ended()
            self._log.info(
                "reconciles succeed again",
                error_type=group.cause.error,
                failures=group.failures,
                seconds=round(asyncio.get_running_loop().time() - group.since, 3),
            )

    def _is_news(self, key: Request, cause: Cause, fields: dict[str, object]) -> bool:
        """Return whether to log the failure as an error; otherwise, the count in a later line includes it."""
        group, joined = self._failing.failed(key, cause)
        times = group.repeats.count()
        if times is None:
            # All objects fail in the same way because of a dependency; other failures may differ for each
            # object.
            return joined and cause.awaited is None and self._lines.try_acquire()
        if times > 1:
            fields.update(times=times, objects=len(group.keys))
        return True


def _is_meant_for_worker(error: BaseException) -> bool:
    """Return whether the exception ends the worker instead of counting as a failed reconcile."""
    if isinstance(error, asyncio.CancelledError):
        # If this task was not cancelled itself, a task that the reconciler awaited was cancelled.
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    if isinstance(error, GeneratorExit):
        return not _is_in_loop()  # Python closes a remaining worker after the loop
    return isinstance(error, KeyboardInterrupt)


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
