"""One key's place in the queue."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["QueueItem"]

K = TypeVar("K", bound=Hashable)


class QueueItem(Generic[K]):
    """A key that wants to be worked on. All times are seconds on the loop's clock."""

    __slots__ = ("due", "key", "priority", "received", "since")

    def __init__(self, key: K, priority: int) -> None:
        self.key = key
        self.priority = priority
        self.due: float | None = None
        """When its delay ends; None without one."""
        self.since = 0.0
        """Since when it has been ready to be worked on; meaningless while it is delayed."""
        self.received: float | None = None
        """When the first of the watch events that it answers arrived; None if no event asked for it."""
