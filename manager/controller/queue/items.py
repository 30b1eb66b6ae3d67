"""One key's place in the queue, and where it waits: until it is due, and then until it is its turn."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeAlias, TypeVar

from manager.controller.reconciler import Priority

__all__ = ["AGED_TURN", "DelayedItems", "QueueItem", "ReadyItems"]

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


AGED_TURN = 8
"""One turn in so many goes to an aged item while there are any."""

_Level: TypeAlias = "OrderedDict[K, QueueItem[K]]"


class ReadyItems(Generic[K]):
    """Higher priorities first, in order of arrival within one, and no priority ever starves another.

    Once the first item of a lower priority has waited `ageing` seconds, at least one turn in `AGED_TURN` goes
    to such an item, the longest-waiting first. So an item with n others in front of it at or below its
    priority waits for its ageing and then for at most `AGED_TURN * (n + 1)` turns, whatever arrives above it;
    and a fresh item of a higher priority has, for each `AGED_TURN - 1` of its own kind before it, one old
    item in front of it, not the whole backlog.
    """

    def __init__(self, *, ageing: float) -> None:
        self._ageing = ageing
        # A dict per priority would do for the order, but finding its first item again and again takes
        # time quadratic in what was removed before it; the ordered one has links.
        self._levels: dict[int, _Level[K]] = {
            priority: OrderedDict() for priority in sorted(Priority, reverse=True)
        }
        self._length = 0
        self._passed_over = 0

    def __len__(self) -> int:
        """How many items wait."""
        return self._length

    def depth(self, priority: Priority) -> int:
        """How many items of this priority wait."""
        return len(self._levels[priority])

    def push(self, item: QueueItem[K]) -> None:
        """Put `item` last among those of its priority."""
        self._levels[item.priority][item.key] = item
        self._length += 1

    def raise_priority(self, item: QueueItem[K], priority: int) -> None:
        """Move an item that waits here up to the end of a higher priority."""
        del self._levels[item.priority][item.key]
        item.priority = priority
        self._levels[priority][item.key] = item

    def pop(self, now: float) -> QueueItem[K]:
        """Take the item whose turn it is. Raises `KeyError` when there is none."""
        waiting = [level for level in self._levels.values() if level]
        if not waiting:
            raise KeyError("no item is ready")
        level = waiting[0] if len(waiting) == 1 else self._choose(waiting, now)
        self._length -= 1
        return level.popitem(last=False)[1]

    def clear(self) -> None:
        """Let all items go."""
        self._length = 0
        for level in self._levels.values():
            level.clear()

    def _choose(self, waiting: list[_Level[K]], now: float) -> _Level[K]:
        highest, *lower = waiting
        aged = min(lower, key=_waiting_since)
        if now - _waiting_since(aged) < self._ageing:
            return highest
        self._passed_over += 1
        if self._passed_over < AGED_TURN:
            return highest
        self._passed_over = 0
        return aged


def _waiting_since(level: _Level[K]) -> float:
    return next(iter(level.values())).since
