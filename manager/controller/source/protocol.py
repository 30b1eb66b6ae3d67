"""What a source is."""

from __future__ import annotations

from typing import Protocol

from manager.controller.queue import WorkQueue
from manager.controller.request import Request

__all__ = ["Source"]


class Source(Protocol):
    """Something that asks for reconciles."""

    @property
    def problem(self) -> str | None:
        """What keeps it from delivering, in words for people; None when nothing does."""

    async def wait_synced(self) -> None:
        """Return once a reconciler can rely on seeing what exists, however long that takes."""

    async def run(self, queue: WorkQueue[Request]) -> None:
        """Add to `queue` until cancelled. What it raises ends the process."""
