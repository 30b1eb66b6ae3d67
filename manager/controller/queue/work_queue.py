"""The queue of keys that a controller works through."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Hashable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Generic, TypeVar

from manager.controller.backoff import RetryBackoff
from manager.controller.queue.items import DelayedItems, QueueItem, ReadyItems
from manager.controller.queue.metrics import QueueMetrics, QueueStatistics
from manager.controller.reconciler import Priority
from manager.metrics import Metrics

__all__ = ["WorkQueue"]

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Keys to be worked on: each is in here once, and with one worker at a time.

    A key that is added while it is worked on is handed out again after `done`, so that no change goes
    unseen. Adding a key that waits already changes nothing but for the better: the higher of the two
    priorities and the earlier of the two times count. A delayed key that is added without a delay is
    therefore ready at once, and its old time is gone: the run that comes now decides anew when to come back.

    Higher priorities go first, and none starves: `ReadyItems` says what is promised.

    All methods but `get` return at once. To be made and used in one running event loop.
    """

    def __init__(
        self, name: str, *, metrics: Metrics, backoff: RetryBackoff[K], ageing: float = 10.0
    ) -> None:
        """`name` labels the metrics. `ageing` is how many seconds a lower priority waits for its turns."""
        self._loop = asyncio.get_running_loop()
        self._metrics = QueueMetrics(metrics, name)
        self._backoff = backoff
        # Every key that wants to run is in here, and besides in one of: the delayed ones, the ready ones,
        # or (added while it is worked on) among the keys in progress.
        self._items: dict[K, QueueItem[K]] = {}
        self._delayed: DelayedItems[K] = DelayedItems(self._loop, self._make_ready)
        self._ready: ReadyItems[K] = ReadyItems(ageing=ageing)
        self._in_progress: dict[K, float] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._metrics.expose(self)

    def __len__(self) -> int:
        """How many keys could be handed out now."""
        return len(self._ready)

    def add(
        self,
        key: K,
        *,
        priority: int = Priority.NORMAL,
        after: float = 0.0,
        received: float | None = None,
        cause: Hashable | None = None,
    ) -> None:
        """Ask for `key` to be worked on, `after` seconds from now.

        `received` is the loop's time at which the watch event that asks for it arrived, if one does, and
        `cause` what `disregard` would know it by. Does nothing once the queue is shut down.
        """
        if self._closed:
            return
        item = self._items.get(key)
        if item is None:
            item = self._items[key] = QueueItem(key, priority)
            known = False
            if cause is not None and key in self._in_progress:
                item.causes = {cause}
        else:
            known = True
            if priority > item.priority:
                self._raise_priority(item, priority)
            item.asked_again(cause)
        if received is not None and item.received is None:
            item.received = received
        if after > 0:
            due = self._loop.time() + after
            if not known or (item.due is not None and due < item.due):
                self._delayed.push(item, due)
        elif not known:
            self._make_ready(item)
        elif item.due is not None:
            self._delayed.cancel(item)
            self._make_ready(item)

    def add_rate_limited(self, key: K, *, priority: int = Priority.NORMAL) -> float:
        """Ask for `key` to be worked on after its back-off; answers the seconds.

        This lengthens the back-off if it was waited out since the last time.
        """
        delay = self._backoff.next_delay(key, now=self._loop.time())
        if not 0 <= delay < math.inf:
            raise ValueError(f"a back-off answers seconds, not {delay}")
        if not self._closed:
            self._metrics.retried()
        self.add(key, priority=priority, after=delay)
        return delay

    def disregard(self, key: K, causes: AbstractSet[Hashable]) -> bool:
        """Not run `key` again, which is being worked on, if nothing but `causes` has asked for that since.

        Answers whether that was so. What was asked for at a later time stays.
        """
        item = self._items.get(key)
        if item is None or item.due is not None or item.causes is None or not item.causes <= causes:
            return False
        del self._items[key]
        return True

    def forget(self, key: K) -> None:
        """Start the back-off of `key` afresh."""
        self._backoff.forget(key)

    def retries(self, key: K) -> int:
        """How many back-offs of `key` have begun since it was last forgotten."""
        return self._backoff.retries(key)

    async def get(self) -> QueueItem[K] | None:
        """The next key to work on, waiting for one; the caller owes a `done` for it.

        None once the queue is shut down and there is nothing left to hand out.
        """
        while not self._ready:
            if self._closed and not self._items:
                return None
            await self._wait()
        now = self._loop.time()
        item = self._ready.pop(now)
        del self._items[item.key]
        self._in_progress[item.key] = now
        self._metrics.waited(now - item.since)
        return item

    def done(self, key: K) -> None:
        """The work on `key` is over, well or badly. Raises `KeyError` unless `get` has handed it out."""
        started = self._in_progress.pop(key)
        self._metrics.worked(self._loop.time() - started)
        item = self._items.get(key)
        if item is not None and item.due is None:
            self._offer(item)
        elif self._closed and not self._items:
            self._wake_all()

    def shut_down(self, *, drain: bool = False) -> None:
        """Take no more keys; delayed ones are dropped. May be called again.

        Without `drain` the waiting ones are dropped too. With it they are handed out first, those included
        that were added while they are worked on.
        """
        self._closed = True
        for item in self._delayed.clear():
            del self._items[item.key]
        if not drain:
            self._items.clear()
            self._ready.clear()
        self._wake_all()

    @property
    def is_shut_down(self) -> bool:
        """Whether `shut_down` was called."""
        return self._closed

    def depth(self, priority: Priority) -> int:
        """How many keys of a priority could be handed out now."""
        return self._ready.depth(priority)

    def unfinished(self) -> float:
        """Sum of the ages of the work in progress, in seconds."""
        return len(self._in_progress) * self._loop.time() - sum(self._in_progress.values())

    def longest_running(self) -> float:
        """Age of the oldest work in progress, in seconds."""
        now = self._loop.time()
        return now - min(self._in_progress.values(), default=now)

    def statistics(self) -> QueueStatistics:
        """The state of the queue at this moment."""
        return QueueStatistics(
            ready={priority: self._ready.depth(priority) for priority in Priority},
            delayed=len(self._delayed),
            processing=len(self._in_progress),
            dirty=len(self._items) - len(self._delayed) - len(self._ready),
            backing_off=len(self._backoff),
            idle_getters=len(self._getters),
            unfinished=self.unfinished(),
            longest_running=self.longest_running(),
        )

    def _make_ready(self, item: QueueItem[K]) -> None:
        item.since = self._loop.time()
        self._metrics.added()
        if item.key not in self._in_progress:
            self._offer(item)

    def _offer(self, item: QueueItem[K]) -> None:
        self._ready.push(item)
        self._wake_one()

    def _raise_priority(self, item: QueueItem[K], priority: int) -> None:
        if item.due is None and item.key not in self._in_progress:
            self._ready.raise_priority(item, priority)
        else:
            item.priority = priority

    async def _wait(self) -> None:
        getter = self._loop.create_future()
        self._getters.append(getter)
        try:
            await getter
        except BaseException:
            if getter.cancelled():
                with suppress(ValueError):  # `_wake_one` may have met it first
                    self._getters.remove(getter)
            else:
                # Woken for a key and cancelled before taking it: the key has to find somebody else.
                self._wake_one()
            raise

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _wake_all(self) -> None:
        while self._getters:
            self._wake_one()
