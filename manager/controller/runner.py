"""One reconcile: under a time limit, logged, counted, and its outcome put into effect."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from typing import TYPE_CHECKING

from manager.cache import own_writes_from_here
from manager.controller.failure import Failure, explain
from manager.controller.metrics import ControllerMetrics
from manager.controller.queue import QueueItem, WorkQueue
from manager.controller.reconciler import Reconciler
from manager.controller.request import Request
from manager.controller.result import Result
from manager.kube.deadlines import Deadlines
from manager.logs import reset_reconcile_log, set_reconcile_log
from manager.rate_limit import TokenBucket

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

__all__ = ["ReconcileRunner"]

_PERSISTENT = 5
"""A race lost so often in a row is no longer one."""


class ReconcileRunner:
    """Calls the reconciler for one queue item after the other, and answers to the queue for it.

    | outcome                      | counted as          | back-off  | next run                 |
    |------------------------------|---------------------|-----------|--------------------------|
    | None, or an empty result     | success             | forgotten | when something changes   |
    | requeue_after                | requeue_after       | forgotten | then                     |
    | requeue, or a moment passed  | requeue             | grows     | after the back-off       |
    | TerminalError                | error, and terminal | stays     | when something changes   |
    | any other exception          | error               | grows     | after the back-off       |
    | an exception of a faulty program | error, and panic | grows    | after the back-off       |
    | too slow                     | error, and timeout  | grows     | after the back-off       |

    A change always runs it again, and at once.
    """

    def __init__(
        self,
        reconciler: Reconciler,
        queue: WorkQueue[Request],
        *,
        timeout: float | None,
        metrics: ControllerMetrics,
        log: FilteringBoundLogger,
        rng: random.Random,
        skips_own_writes: bool = False,
    ) -> None:
        """`log` carries the controller's name; `timeout` is in seconds.

        With `skips_own_writes`, what a reconcile has itself written does not run it again.
        """
        self._reconciler = reconciler
        self._queue = queue
        self._timeout = timeout
        self._metrics = metrics
        self._log = log
        self._rng = rng
        self._skips_own_writes = skips_own_writes
        # When everything fails at once, say because the API server is gone, a line each would say nothing
        # more, and cost more than the retries do.
        self._lines = TokenBucket(rate=10, burst=100)
        self._lines_withheld = 0
        self._deadlines = Deadlines()
        self.active = 0
        """How many reconciles are running."""

    async def run(self, item: QueueItem[Request]) -> None:
        """Reconcile once. Raises only what is meant to end the worker: its cancellation, or the process's."""
        log = self._log.bind(
            namespace=item.key.namespace, name=item.key.name, reconcile_id=f"{self._rng.getrandbits(64):016x}"
        )
        token = set_reconcile_log(log)
        own_writes = own_writes_from_here() if self._skips_own_writes else None
        loop = asyncio.get_running_loop()
        started = loop.time()
        if item.received is not None:
            self._metrics.event_latency(started - item.received)
        limit = self._deadlines.start(math.inf if self._timeout is None else self._timeout)
        self.active += 1
        try:
            try:
                result = await self._reconciler.reconcile(item.key)
            except asyncio.CancelledError as cancelled:
                if limit.missed():
                    raise TimeoutError from cancelled
                raise
            finally:
                self._deadlines.stop(limit)
            if limit.expired:
                # It swallowed its cancellation, and nobody knows how far it came.
                self._fail(item, TimeoutError(), timed_out=True, log=log)
            else:
                # Not so after a failure: then it may not have come to look at what it wrote.
                if own_writes is not None and self._queue.disregard(item.key, own_writes):
                    self._metrics.skipped()
                self._finish(item, result)
        except (Exception, BaseExceptionGroup, asyncio.CancelledError) as error:
            if _is_meant_for_worker(error):
                raise
            self._fail(item, error, timed_out=limit.expired, log=log)
        finally:
            self.active -= 1
            self._metrics.time(loop.time() - started)
            reset_reconcile_log(token)

    def close(self) -> None:
        """Leave nothing behind, once no reconcile runs any more."""
        self._deadlines.close()

    def _finish(self, item: QueueItem[Request], result: Result | None) -> None:
        if result is None:
            self._queue.forget(item.key)
            self._metrics.success()
            return
        if not isinstance(result, Result):
            raise TypeError(f"a reconciler returns a Result or None, not {result!r}")
        priority = item.priority if result.priority is None else result.priority
        if result.requeue_after is not None and result.requeue_after > 0:
            self._queue.forget(item.key)
            self._queue.add(item.key, priority=priority, after=result.requeue_after)
            self._metrics.requeue_after()
        elif result.requeue or result.requeue_after is not None:
            self._queue.add_rate_limited(item.key, priority=priority)
            self._metrics.requeue()
        else:
            self._queue.forget(item.key)
            self._metrics.success()

    def _fail(
        self, item: QueueItem[Request], error: BaseException, *, timed_out: bool, log: FilteringBoundLogger
    ) -> None:
        failure = Failure.of(error)
        self._metrics.error()
        self._metrics.failed()
        if timed_out:
            self._metrics.timed_out()
        if failure is Failure.PANIC:
            self._metrics.panicked()
        retries = self._queue.retries(item.key)
        retry_in: float | None = None
        if failure is Failure.TERMINAL:
            self._metrics.terminal()
        else:
            retry_in = round(self._queue.add_rate_limited(item.key, priority=item.priority), 3)

        level = logging.INFO if failure is Failure.RACE and retries < _PERSISTENT else logging.ERROR
        if not self._lines.try_acquire():
            self._lines_withheld += 1
            return
        fields: dict[str, object] = {"error": explain(error), "error_type": type(error).__name__}
        if retry_in is not None:
            fields.update(retries=retries, retry_in=retry_in)
        if self._lines_withheld:
            fields["lines_withheld"] = self._lines_withheld
            self._lines_withheld = 0
        if timed_out:
            fields["timeout"] = self._timeout
        if timed_out or failure.has_traceback:
            fields["exc_info"] = error
        log.log(level, "reconcile timed out" if timed_out else "reconcile failed", **fields)


def _is_meant_for_worker(error: BaseException) -> bool:
    """Whether it has to end the worker, and is not just how the reconcile failed."""
    if isinstance(error, asyncio.CancelledError):
        # Without anyone having cancelled this task, it comes from something that the reconciler waited for.
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup((KeyboardInterrupt, SystemExit)) is not None
    return False
