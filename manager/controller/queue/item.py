"""One key's place in the queue."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["QueueItem"]

K = TypeVar("K", bound=Hashable)


class QueueItem(Generic[K]):
    """A key that wants to be worked on. All times are seconds on the loop's clock."""

    __slots__ = ("causes", "due", "key", "priority", "received", "since")

    def __init__(self, key: K, priority: int) -> None:
        self.key = key
        self.priority = priority
        self.due: float | None = None
        """When its delay ends; None without one."""
        self.since = 0.0
        """Since when it has been ready to be worked on; meaningless while it is delayed."""
        self.received: float | None = None
        """When the first of the watch events that it answers arrived; None if no event asked for it."""
        self.causes: set[Hashable] | None = None
        """All that asked for it, where each said what it was, and the key was being worked on; else None."""

    def asked_again(self, cause: Hashable | None) -> None:
        """Take note of one more that asks for the key."""
        if cause is None:
            self.causes = None
        elif self.causes is not None:
            self.causes.add(cause)
