"""Methods that run as long as their object exists: `@daemon`."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from manager.api import ObjectKey, Resource
from manager.controller import Source, TerminalError, WorkQueue
from manager.controller.failure import Failure, explain
from manager.election.coordinator import OwnedObjects
from manager.operator.base import OperatorBase
from manager.telemetry.logs import get_logger
from manager.util.backoff import Backoff
from manager.util.rate_limit import Repeats

_log = get_logger("controller")

_SLOW = 10.0
"""Seconds from the cancellation of a daemon until a warning that it still runs."""


@dataclass(slots=True)
class _Started:
    uid: str
    generation: int | None
    tasks: dict[str, asyncio.Task[None] | None] = field(default_factory=dict)
    """The tasks by daemon name; None for a daemon that has returned or raised TerminalError."""


class Daemons(Source):
    """The daemons of an operator; they end when the task of the operator's controller ends."""

    def __init__(self, operator: OperatorBase) -> None:
        self._operator = operator
        self._started: dict[ObjectKey, _Started] = {}
        self._group: asyncio.TaskGroup | None = None
        self._context = contextvars.Context()
        self.owned_objects: OwnedObjects | None = None

    async def run(self, queue: WorkQueue[ObjectKey]) -> None:
        """Run the task group of all daemons until cancelled; then cancel the daemons."""
        del queue
        # A daemon must not inherit the log, permit and trace of the reconcile that starts it.
        self._context = contextvars.copy_context()
        async with asyncio.TaskGroup() as self._group:
            await asyncio.Event().wait()

    async def ensure(self, obj: Resource) -> None:
        """Start the object's missing daemons; after a change of the spec, restart those with `restarts`."""
        if self._group is None:
            return
        meta, started = obj.metadata, self._started.get(obj.key)
        if started is not None and started.uid != meta.uid:
            await self.stop(obj.key)
            started = None
        if started is None:
            started = self._started[obj.key] = _Started(meta.uid, meta.generation)
        elif started.generation != meta.generation:
            started.generation = meta.generation
            for each in self._operator.daemons:
                if each.restarts:
                    await _end(started.tasks.pop(each.name, None))
        for each in self._operator.daemons:
            if each.name not in started.tasks:
                copy = obj.model_copy(deep=True)
                started.tasks[each.name] = self._group.create_task(
                    self._run(each.name, copy, started),
                    name=f"{self._operator.name}-{each.name} {obj.key}",
                    context=self._context.copy(),
                )

    async def stop(self, key: ObjectKey) -> None:
        """Cancel the daemons of an object; return when they have ended."""
        if (started := self._started.get(key)) is not None:
            await _end(*started.tasks.values())
            self._started.pop(key, None)

    async def _run(self, name: str, obj: Resource, started: _Started) -> None:
        is_over = False
        try:
            owned = self.owned_objects
            async with nullcontext(True) if owned is None else owned.work_on(obj.key, at_once=True) as ours:
                if ours:
                    await self._keep_calling(name, obj)
                    is_over = True
        finally:
            if started.tasks.get(name) is not asyncio.current_task():
                pass  # another daemon replaces it
            elif is_over:
                started.tasks[name] = None
            else:
                # The next reconcile restarts the daemon if this replica still owns the object.
                del started.tasks[name]
                if not started.tasks and self._started.get(obj.key) is started:
                    del self._started[obj.key]

    async def _keep_calling(self, name: str, obj: Resource) -> None:
        """Call the daemon until it returns or raises TerminalError."""
        method: Callable[[Resource], Coroutine[Any, Any, None]] = getattr(self._operator, name)
        backoff, repeats = Backoff(base=1.0, cap=60.0, rng=self._operator.manager.rng), Repeats()
        task = asyncio.current_task()
        assert task is not None
        while True:
            try:
                return await method(obj.model_copy(deep=True))
            except asyncio.CancelledError as error:
                if task.cancelling():
                    raise
                failed: BaseException = error  # a leaked cancellation from a library
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the operator's code may raise anything
                failed = error
            if fields := failure_fields(failed, repeats):
                about = {"daemon": name, "namespace": obj.metadata.namespace, "name": obj.metadata.name}
                _log.error("a daemon failed", controller=self._operator.name, **about, **fields)
            if isinstance(failed, TerminalError):
                return None
            await asyncio.sleep(backoff.next())


def failure_fields(error: BaseException, repeats: Repeats) -> dict[str, Any]:
    """Return the log fields of a timer's or daemon's exception; empty if this repetition is not logged."""
    if (times := repeats.count()) is None:
        return {}
    traceback = error if Failure.of(error).has_traceback else None
    return {"error": explain(error), "times": times, "exc_info": traceback}


async def _end(*tasks: asyncio.Task[None] | None) -> None:
    for task in tasks:
        if task is not None:
            task.cancel()
    running = {task for task in tasks if task is not None}
    timeout: float | None = _SLOW
    while running:
        _, running = await asyncio.wait(running, timeout=timeout)
        if running and timeout is not None:
            names = sorted(task.get_name() for task in running)
            _log.warning("waiting for cancelled daemons", names=names)
            timeout = None
