"""Items that can be worked on, in the order they will be."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeAlias, TypeVar

from manager.controller.priority import Priority
from manager.controller.queue.item import QueueItem

__all__ = ["AGED_TURN", "ReadyItems"]

K = TypeVar("K", bound=Hashable)

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
