"""Parts that live as long as the manager: background tasks with an owner, and contexts that stay open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import Context
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from manager.telemetry.logs import get_logger

__all__ = ["CannotStart", "Lifespan", "Runnable", "Runnables"]

CLOSE_TIMEOUT = 5.0
"""Seconds that closing each context may take."""

_log = get_logger("manager")


class CannotStart(Exception):
    """A context could not be entered: one line that names it and says why."""


@dataclass(frozen=True, slots=True)
class Runnable:
    """A task that runs beside the controllers until it is cancelled.

    `run` is called once, when its turn comes. With `leader_only` it runs in the replica that leads.
    """

    name: str
    run: Callable[[], Coroutine[Any, Any, None]]
    leader_only: bool = False


@dataclass(frozen=True, slots=True)
class Lifespan:
    """A context that is open as long as the manager runs: a connection, a server.

    `enter` makes it when the manager runs. It is entered before caches and controllers start, in the order of
    registration. It is left in the opposite order, after the last reconcile has ended, the lease is released
    and Events are sent. When it cannot be entered, the process ends with one line, in which `name` stands.
    """

    enter: Callable[[], AbstractAsyncContextManager[Any]]
    name: str | None = None

    async def open(self, stack: AsyncExitStack) -> None:
        """Enter it, to be left with `stack`. Raises `CannotStart`."""
        try:
            await stack.enter_async_context(_ClosedInTime(self.enter(), self.name or self.enter.__qualname__))
        except Exception as error:
            kind, text = type(error).__name__, str(error)
            # An error of the system speaks for itself; of others, the class says half of what is wrong.
            reason = (text if isinstance(error, OSError) else f"{kind}: {text}") if text else kind
            raise CannotStart(f"cannot start {self.name}: {reason}" if self.name else reason) from error


class _ClosedInTime(AbstractAsyncContextManager[Any]):
    """A context that does not hold up the others for longer than `CLOSE_TIMEOUT` when it is left."""

    def __init__(self, context: AbstractAsyncContextManager[Any], name: str) -> None:
        self._context = context
        self._name = name

    async def __aenter__(self) -> Any:
        return await self._context.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        limit = asyncio.timeout(CLOSE_TIMEOUT)
        try:
            async with limit:
                return await self._context.__aexit__(kind, error, trace)
        except TimeoutError:
            if not limit.expired():
                raise
        _log.warning("could not be closed in time", what=self._name, seconds=CLOSE_TIMEOUT)
        return None


class Runnables:
    """Tasks that run until they are stopped, and whose first failure is reported to their owner.

    A task group cancels its other tasks at once when one fails. A manager must not: when one part fails,
    reconciles still finish, the lease is released and events are sent. So the failure is handed to the
    owner, who stops each set of runnables in its own time.
    """

    def __init__(self, failure: asyncio.Future[None]) -> None:
        """`failure` gets the first exception of any runnable; several sets may share it."""
        self._failure = failure
        self._tasks: list[asyncio.Task[None]] = []
        self._asked: set[asyncio.Task[None]] = set()

    def start(self, runnable: Runnable, context: Context | None = None) -> None:
        """Run it in the background, under its name in task dumps, and in `context` if one is given."""
        run = _run(runnable)
        task = asyncio.get_running_loop().create_task(run, name=runnable.name, context=context)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    async def stop(self) -> None:
        """Cancel what still runs and wait until all of it has ended, newest first, however long it takes.

        When this is cancelled itself, what is left still runs; call it again. No task is cancelled twice,
        which would cut short its own way of ending.
        """
        while self._tasks:
            task = self._tasks[-1]
            if task not in self._asked:
                self._asked.add(task)
                task.cancel()
            # Its failure, if any, has been handed over by `_ended`.
            await asyncio.wait([task])
            if task in self._tasks:  # unless another caller was told to stop it too
                self._tasks.remove(task)
            self._asked.discard(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error: BaseException | None
        if not task.cancelled():
            error = task.exception()
        elif task in self._asked:
            error = None
        else:
            # Some library's cancellation that leaked: a part that is missing from now on.
            error = RuntimeError(f"{task.get_name()} was cancelled, and not by its owner")
        if error is not None and not self._failure.done():
            self._failure.set_exception(error)


async def _run(runnable: Runnable) -> None:
    await runnable.run()
