"""Background tasks with an owner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass
from typing import Any

__all__ = ["Runnable", "Runnables"]


@dataclass(frozen=True, slots=True)
class Runnable:
    """Something that runs beside the controllers until it is cancelled.

    `run` is called once, when its turn comes. With `leader_only` it runs in the replica that leads.
    """

    name: str
    run: Callable[[], Coroutine[Any, Any, None]]
    leader_only: bool = False


class Runnables:
    """Tasks that run until they are stopped; the first one that fails is there to be seen.

    A task group cancels its other tasks at once when one fails. A manager must not: when one part fails,
    reconciles still finish, the lease is released and events are sent. So the failure is handed to the
    owner, who stops each set of runnables in its own time.
    """

    def __init__(self, failure: asyncio.Future[None]) -> None:
        """`failure` gets the first exception of any runnable; several sets may share it."""
        self._failure = failure
        self._tasks: list[asyncio.Task[None]] = []
        self._asked: set[asyncio.Task[None]] = set()

    def start(
        self, runnable: Coroutine[Any, Any, None], *, name: str, context: Context | None = None
    ) -> None:
        """Run it in the background, under that name in task dumps, and in `context` if one is given."""
        task = asyncio.get_running_loop().create_task(runnable, name=name, context=context)
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
            if task in self._tasks:  # and nobody else was told to stop it too
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
