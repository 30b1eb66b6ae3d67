"""Objects as they are, and again whenever they change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Generic, Self, TypeVar

from manager.api import Resource
from manager.cache import Informer
from manager.client.reader import ObjectList, decode_records

__all__ = ["LiveList", "followed"]

R = TypeVar("R", bound=Resource)


class LiveList(Generic[R]):
    """An async iterator: each step is the list of all matching objects, in the order of their keys.

    The first step comes once all of them are known; every further one when something has changed since the
    last. Changes in quick succession come as one step, so a slow reader lags behind by no more than one.
    An object that is not in the list any more is gone.
    """

    def __init__(self, informer: Informer, kind: type[R]) -> None:
        self._informer = informer
        self._kind = kind
        self._news = asyncio.Event()
        self._failure: BaseException | None = None

    @property
    def problem(self) -> str | None:
        """What keeps the list from being complete or current, for people; None when all is well."""
        return self._informer.problem

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ObjectList[R]:
        """The objects as they are now; those that are not of the kind's shape are named apart."""
        await self._news.wait()
        if self._failure is not None:
            raise self._failure
        self._news.clear()
        return decode_records(self._informer, self._informer.list(), self._kind)

    async def _run(self) -> None:
        """Follow the server until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer.run(), name=f"watch {self._kind.plural}")
            await self._informer.wait_synced()
            # From here on: what came before belongs to the first list.
            self._informer.subscribe(lambda _: self._news.set(), replay=False)
            self._news.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Tell the reader, who would wait for ever."""
        if not task.cancelled():
            self._failure = task.exception()
            self._news.set()


@asynccontextmanager
async def followed(informer: Informer, kind: type[R]) -> AsyncIterator[LiveList[R]]:
    """Run the informer for the length of the context."""
    live = LiveList(informer, kind)
    running = asyncio.create_task(live._run(), name=f"follow {kind.plural}")  # noqa: SLF001 - of this module
    running.add_done_callback(live._ended)  # noqa: SLF001 - the same
    try:
        yield live
    finally:
        running.cancel()
        await asyncio.wait([running])
