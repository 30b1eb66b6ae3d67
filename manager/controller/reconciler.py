"""What an operator implements."""

from __future__ import annotations

from typing import Protocol

from manager.controller.request import Request
from manager.controller.result import Result

__all__ = ["Reconciler"]


class Reconciler(Protocol):
    """Brings one object's part of the world to the state it asks for."""

    async def reconcile(self, request: Request) -> Result | None:
        """Look at the object and do what is missing; None means done until something changes.

        It is called for any reason and any number of times, never twice at once for one object, and has
        to find out by itself what there is to do; the object may be gone. What it raises is counted, logged
        and retried with back-off; `TerminalError` is not retried. It must not swallow
        `asyncio.CancelledError`: that is how a time-out and the end of the process reach it.
        """
