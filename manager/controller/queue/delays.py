"""Items whose time has not come."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from manager.controller.queue.item import QueueItem

__all__ = ["DelayedItems"]

K = TypeVar("K", bound=Hashable)

_SLACK = 64
"""So many dead entries are not worth a rebuild of the heap."""


class DelayedItems(Generic[K]):
    """Hands each item back when it is due, with one timer of the loop for all of them.

    An item leaves early by `cancel`. Its entry then stays in the heap as a dead one, recognised by a time
    that is no longer the item's; the heap is rebuilt before dead entries outnumber the living, so that a
    busy key with a long `requeue_after` costs no memory.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, release: Callable[[QueueItem[K]], None]) -> None:
        """`release` is called from the loop with each item that falls due."""
        self._loop = loop
        self._release = release
        self._heap: list[tuple[float, int, QueueItem[K]]] = []
        self._sequence = 0
        self._living = 0
        self._timer: asyncio.Handle | None = None
        # Kept here, because the handle that uvloop has for what is due at once knows no time.
        self._armed_for = math.inf

    def __len__(self) -> int:
        """How many items are waiting."""
        return self._living

    def push(self, item: QueueItem[K], due: float) -> None:
        """Keep `item` until `due`; one that is here already moves to that time."""
        if item.due is None:
            self._living += 1
        item.due = due
        # The sequence keeps items of the same moment in order, and items themselves from being compared.
        self._sequence += 1
        heappush(self._heap, (due, self._sequence, item))
        self._drop_dead()
        if due < self._armed_for:
            self._arm()

    def cancel(self, item: QueueItem[K]) -> None:
        """Let `item` go before its time; it is not released."""
        item.due = None
        self._living -= 1

    def clear(self) -> list[QueueItem[K]]:
        """Let all items go; answers them. No timer is left."""
        items = [item for due, _, item in self._heap if item.due == due]
        self._heap.clear()
        self._living = 0
        self._arm()
        return items

    def _drop_dead(self) -> None:
        if len(self._heap) > 2 * self._living + _SLACK:
            self._heap = [entry for entry in self._heap if entry[2].due == entry[0]]
            heapify(self._heap)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._armed_for = math.inf
        if self._heap:
            self._armed_for = self._heap[0][0]
            self._timer = self._loop.call_at(self._armed_for, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._armed_for = math.inf
        now = self._loop.time()
        while self._heap and self._heap[0][0] <= now:
            due, _, item = heappop(self._heap)
            if item.due == due:
                self.cancel(item)
                self._release(item)
        self._arm()
