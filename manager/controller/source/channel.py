"""Requests from elsewhere in the process."""

from __future__ import annotations

import asyncio

from manager.controller.priority import Priority
from manager.controller.queue import WorkQueue
from manager.controller.request import Request

__all__ = ["ChannelSource"]


class ChannelSource:
    """Passes on what somebody sends: a listener of some other system, a webhook, another controller.

    What is sent while the controller does not run (yet) is kept, each request once.
    """

    problem: str | None = None
    """It has none: it is in sync by itself."""

    def __init__(self) -> None:
        self._queue: WorkQueue[Request] | None = None
        self._kept: dict[Request, int] = {}

    def send(self, request: Request, *, priority: int = Priority.NORMAL) -> None:
        """Ask for a reconcile. Returns at once; to be called in the event loop's thread."""
        if self._queue is None:
            self._kept[request] = max(priority, self._kept.get(request, priority))
        else:
            self._queue.add(request, priority=priority)

    async def wait_synced(self) -> None:
        """Return at once."""

    async def run(self, queue: WorkQueue[Request]) -> None:
        """Pass on what was kept, and then what is sent, until cancelled."""
        self._queue = queue
        for request, priority in self._kept.items():
            queue.add(request, priority=priority)
        self._kept.clear()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._queue = None
