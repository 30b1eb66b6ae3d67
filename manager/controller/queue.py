"""The queue of keys for the workers of a controller."""

from __future__ import annotations

import asyncio
import math
import random
from collections import OrderedDict, deque
from collections.abc import Hashable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Generic, TypeAlias, TypeVar

from manager.controller.reconciler import Priority
from manager.telemetry.metrics import Metrics, counting, observing
from manager.telemetry.runs import MOST_TRIGGERS, Trigger
from manager.util.backoff import ExponentialDelay

K = TypeVar("K", bound=Hashable)


class KeyBackoff(Generic[K]):
    """A counter of each key's failures, which returns the delay after each failure.

    The delay grows only if the earlier delay has ended. Otherwise an object that changes often during an
    outage of seconds would wait for a quarter of an hour afterwards.
    """

    def __init__(
        self, *, base: float = 0.005, cap: float = 1000.0, jitter: float = 0.1, rng: random.Random
    ) -> None:
        """Set the delays, in seconds; see `manager.util.backoff.ExponentialDelay`."""
        self._delay = ExponentialDelay(base=base, cap=cap, jitter=jitter, rng=rng)
        # The number of failures of each key, and the end of its delay.
        self._failures: dict[K, tuple[int, float]] = {}

    def __len__(self) -> int:
        return len(self._failures)

    def next_delay(self, key: K, *, now: float) -> float:
        """Record a failure of `key` at the time `now`; return the seconds until the next attempt."""
        failures, due = self._failures.get(key, (0, now))
        if now < due:
            return due - now
        delay = self._delay(failures)
        self._failures[key] = (failures + 1, now + delay)
        return delay

    def retries(self, key: K) -> int:
        """Return the number of delays of `key` since it was last forgotten."""
        return self._failures.get(key, (0, 0.0))[0]

    def forget(self, key: K) -> None:
        """Reset the failures of `key`."""
        self._failures.pop(key, None)


@dataclass(slots=True, eq=False)
class QueueItem(Generic[K]):
    """A requested key in the queue. All times are seconds on the loop's clock."""

    key: K
    priority: int
    triggers: tuple[Trigger, ...] = ()
    """The first requests for the key, and the last change of the object itself."""
    triggered: int = 1
    """The number of all requests."""
    due: float | None = None
    """The end of the delay; None without one."""
    since: float = 0.0
    """The time since when the key is ready for a worker; meaningless during a delay."""
    causes: set[Hashable] | None = None
    """All causes of the requests if each had one, and a worker had the key meanwhile; else None."""

    def asked_again(self, trigger: Trigger | None, cause: Hashable | None) -> None:
        """Add another request for the key, with its trigger and cause."""
        self.triggered += 1
        if trigger is not None and (len(self.triggers) < MOST_TRIGGERS or trigger.source == "for"):
            self.triggers = (*self.triggers[: MOST_TRIGGERS - 1], trigger)
        if cause is None:
            self.causes = None
        elif self.causes is not None:
            self.causes.add(cause)


_SLACK = 64
"""The number of dead entries up to which the heap is not rebuilt."""

AGED_TURN = 8
"""Of this many turns, one goes to an aged item, if there is one."""

_Level: TypeAlias = "OrderedDict[K, QueueItem[K]]"


class ReadyItems(Generic[K]):
    """Ready items: higher priorities first, in order of arrival within each, and without starvation.

    When the first item of a lower priority has waited for `ageing` seconds, `pop` returns such an item in at
    least one of `AGED_TURN` calls, the oldest first. So an item with n items that are older, or
    before it in its priority, waits for `ageing`, and then for at most `AGED_TURN * (n + 1)` calls, even if
    items of higher priorities keep arriving. A new item of a higher priority waits for one aged item per
    `AGED_TURN - 1` items of its own priority, and does not wait for all aged items.
    """

    def __init__(self, *, ageing: float) -> None:
        self._ageing = ageing
        # A plain dict would keep the order, too, but finding its first item repeatedly takes time quadratic
        # in the number of removed items; an OrderedDict is linked.
        self._levels: dict[int, _Level[K]] = {
            priority: OrderedDict() for priority in sorted(Priority, reverse=True)
        }
        self.length = 0
        """How many items wait."""
        self._passed_over = 0

    def depth(self, priority: Priority) -> int:
        """Return the number of waiting items with this priority."""
        return len(self._levels[priority])

    def oldest(self, now: float) -> float:
        """Return for how many seconds the oldest key has waited."""
        return max((now - _waiting_since(level) for level in self._levels.values() if level), default=0.0)

    def push(self, item: QueueItem[K]) -> None:
        """Add `item` as the last one of its priority."""
        self._levels[item.priority][item.key] = item
        self.length += 1

    def remove(self, item: QueueItem[K]) -> None:
        """Remove a waiting item."""
        del self._levels[item.priority][item.key]
        self.length -= 1

    def pop(self, now: float) -> QueueItem[K]:
        """Remove and return the next item; there has to be one."""
        waiting = [level for level in self._levels.values() if level]
        level = waiting[0] if len(waiting) == 1 else self._choose(waiting, now)
        self.length -= 1
        return level.popitem(last=False)[1]

    def clear(self) -> None:
        """Remove all items."""
        self.length = 0
        for level in self._levels.values():
            level.clear()

    def _choose(self, waiting: list[_Level[K]], now: float) -> _Level[K]:
        highest, *lower = waiting
        aged = min(lower, key=_waiting_since)
        if now - _waiting_since(aged) >= self._ageing:
            self._passed_over = (self._passed_over + 1) % AGED_TURN
            if not self._passed_over:
                return aged
        return highest


def _waiting_since(level: _Level[K]) -> float:
    return next(iter(level.values())).since


class WorkQueue(Generic[K]):
    """A queue of keys that has each key once, and gives it to one worker at a time.

    A key that is added while a worker has it is returned again after `done`, so that no change is missed.
    Adding a waiting key again can only raise its priority or shorten its delay: the higher priority and the
    earlier time count. So a delayed key that is added without a delay is ready at once. Its old delay is
    dropped: after the next reconcile, the result decides when to requeue.

    Higher priorities go first, without starving the others: see `ReadyItems`.

    All methods except `get` return at once. Create and use a queue in one running event loop.
    """

    def __init__(self, name: str, *, metrics: Metrics, backoff: KeyBackoff[K], ageing: float = 10.0) -> None:
        """Create an empty queue. `name` labels the metrics. For `ageing`, in seconds, see `ReadyItems`."""
        self._loop = asyncio.get_running_loop()
        self._count_added = counting(metrics.queue_adds.labels(name, name))
        self._count_retried = counting(metrics.queue_retries.labels(name, name))
        self._observe_waited = observing(metrics.queue_latency.labels(name, name))
        self._observe_worked = observing(metrics.work_duration.labels(name, name))
        self._backoff = backoff
        self.forget, self.retries = backoff.forget, backoff.retries
        # Every requested key is in this map, and also in one of these: the delayed items, the ready items,
        # the paused keys, or (if it was added while a worker has it) the keys in progress.
        self._items: dict[K, QueueItem[K]] = {}
        # One timer serves all delayed items. The heap is ordered by time and arrival. An entry is dead if its
        # item has another time by now.
        self._heap: list[tuple[float, int, QueueItem[K]]] = []
        self._arrivals = count()
        self._timer: asyncio.Handle | None = None
        self._armed_for = math.inf  # uvloop's handle has no time if the callback is due at once
        self._ready: ReadyItems[K] = ReadyItems(ageing=ageing)
        self.depth = self._ready.depth
        """Returns the number of ready keys of a priority, without paused keys."""
        self._in_progress: dict[K, float] = {}
        self._paused_keys: set[K] = set()
        self._paused = False
        self._getters: deque[asyncio.Future[None]] = deque()
        self.is_shut_down = False
        for each in Priority:
            gauge = metrics.queue_depth.labels(name, name, str(int(each)))
            gauge.set_function(partial(self.depth, each))
        metrics.unfinished_work.labels(name, name).set_function(self.unfinished)
        metrics.oldest_key.labels(name, name).set_function(self.oldest)
        metrics.next_retry.labels(name, name).set_function(self.next_retry)
        metrics.longest_running.labels(name, name).set_function(self.longest_running)

    def __len__(self) -> int:
        return self._ready.length

    def add(
        self,
        key: K,
        *,
        priority: int = Priority.NORMAL,
        after: float = 0.0,
        trigger: Trigger | None = None,
        cause: Hashable | None = None,
    ) -> None:
        """Request `key`, to be ready after `after` seconds.

        `trigger` explains the request in the reconcile record, and `cause` identifies it for
        `discard_if_only`. A queue that is shut down ignores the request.
        """
        if self.is_shut_down:
            return
        item = self._items.get(key)
        is_new = item is None
        if item is None:
            item = self._items[key] = QueueItem(key, priority, () if trigger is None else (trigger,))
            if cause is not None and key in self._in_progress:
                item.causes = {cause}
        else:
            item.asked_again(trigger, cause)
            if priority > item.priority:
                self._raise_priority(item, priority)
        if after > 0:
            due = self._loop.time() + after
            if is_new or (item.due is not None and due < item.due):
                self._delay(item, due)
        elif is_new or item.due is not None:
            self._make_ready(item)

    def add_rate_limited(self, key: K, *, priority: int = Priority.NORMAL) -> float:
        """Request `key` after its back-off; return the back-off in seconds.

        The back-off grows if the last delay of `key` has ended before this call.
        """
        now = self._loop.time()
        delay = self._backoff.next_delay(key, now=now)
        if not self.is_shut_down:
            self._count_retried()
        self.add(key, priority=priority, after=delay, trigger=Trigger("back-off", now))
        return delay

    def discard_if_only(self, key: K, causes: AbstractSet[Hashable]) -> bool:
        """Drop the repeated request for a key that a worker has, if `causes` has all causes of the request.

        Returns whether the request was dropped. A delayed request stays.
        """
        item = self._items.get(key)
        if item is None or item.due is not None or item.causes is None or not item.causes <= causes:
            return False
        del self._items[key]
        return True

    def waiting(self, key: K) -> QueueItem[K] | None:
        """Return the item of a requested key, even if the key is paused or a worker has it; else None."""
        return self._items.get(key)

    async def get(self) -> QueueItem[K] | None:
        """Wait for the next item; the caller must call `done` for its key.

        Returns None if the queue is shut down.
        """
        while not self._ready.length or self._paused:
            if self.is_shut_down:
                return None
            getter = self._loop.create_future()
            self._getters.append(getter)
            try:
                await getter
            except BaseException:
                if getter.cancelled():
                    with suppress(ValueError):  # `_wake_one` may have removed it first
                        self._getters.remove(getter)
                else:
                    # This getter was woken for a key and cancelled before taking the key: wake another one.
                    self._wake_one()
                raise
        now = self._loop.time()
        item = self._ready.pop(now)
        del self._items[item.key]
        self._in_progress[item.key] = now
        self._observe_waited(now - item.since)
        return item

    def done(self, key: K) -> None:
        """End the work on `key`, after success or failure; raises `KeyError` if no worker has the key."""
        started = self._in_progress.pop(key)
        self._observe_worked(self._loop.time() - started)
        item = self._items.get(key)
        if item is not None and item.due is None:
            self._offer(item)

    def pause(self, key: K) -> None:
        """Stop returning `key` from `get` until `resume`; the queue keeps requests for it meanwhile."""
        if (item := self._takeable(key)) is not None:
            self._ready.remove(item)
        self._paused_keys.add(key)

    def resume(self, key: K) -> None:
        """End the pause of `key`, so that `get` may return the key again."""
        if key not in self._paused_keys:
            return
        self._paused_keys.remove(key)
        if (item := self._takeable(key)) is not None:
            item.since = self._loop.time()  # the paused time does not count as waiting for a worker
            self._offer(item)

    def is_paused(self, key: K) -> bool:
        """Return whether the key is paused."""
        return key in self._paused_keys

    @property
    def paused(self) -> bool:
        """Return whether `get` returns no key at all; the queue keeps requests meanwhile."""
        return self._paused

    @paused.setter
    def paused(self, paused: bool) -> None:
        self._paused = paused
        for _ in range(0 if paused else self._ready.length):
            self._wake_one()

    def shut_down(self) -> None:
        """Accept no more keys, and drop the waiting ones. May be called again."""
        self.is_shut_down = True
        self._heap.clear()
        self._arm()
        self._items.clear()
        self._ready.clear()
        for _ in range(len(self._getters)):
            self._wake_one()

    @property
    def delayed(self) -> int:
        """Return the number of delayed keys."""
        return sum(item.due is not None for item in self._items.values())

    @property
    def running(self) -> int:
        """Return the number of keys that workers have."""
        return len(self._in_progress)

    def oldest(self) -> float:
        """Return for how many seconds the oldest ready key has waited."""
        return self._ready.oldest(self._loop.time())

    def next_retry(self) -> float:
        """Return the seconds until the next delay ends; 0 if there is none."""
        due = self._first_due()
        return 0.0 if due == math.inf else max(due - self._loop.time(), 0.0)

    def unfinished(self) -> float:
        """Return the sum of the ages of the work in progress, in seconds."""
        return len(self._in_progress) * self._loop.time() - sum(self._in_progress.values())

    def longest_running(self) -> float:
        """Return the age of the oldest work in progress, in seconds."""
        now = self._loop.time()
        return now - min(self._in_progress.values(), default=now)

    def _delay(self, item: QueueItem[K], due: float) -> None:
        item.due = due
        heappush(self._heap, (due, next(self._arrivals), item))
        if len(self._heap) > 2 * len(self._items) + _SLACK:
            self._heap = [entry for entry in self._heap if entry[2].due == entry[0]]
            heapify(self._heap)
        if due < self._armed_for:
            self._arm()

    def _first_due(self) -> float:
        while self._heap and self._heap[0][2].due != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = self._first_due()
        never = self._armed_for == math.inf
        self._timer = None if never else self._loop.call_at(self._armed_for, self._end_delays)

    def _end_delays(self) -> None:
        now = self._loop.time()
        while self._first_due() <= now:
            self._make_ready(self._heap[0][2])
        self._arm()

    def _make_ready(self, item: QueueItem[K]) -> None:
        item.due, item.since = None, self._loop.time()
        self._count_added()
        if item.key not in self._in_progress:
            self._offer(item)

    def _offer(self, item: QueueItem[K]) -> None:
        if item.key not in self._paused_keys:
            self._ready.push(item)
            self._wake_one()

    def _takeable(self, key: K) -> QueueItem[K] | None:
        """Return the ready item of a key; None if the key is paused or a worker has it."""
        item = self._items.get(key)
        kept = item is None or item.due is not None or key in self._in_progress or key in self._paused_keys
        return None if kept else item

    def _raise_priority(self, item: QueueItem[K], priority: int) -> None:
        if self._takeable(item.key) is item:
            self._ready.remove(item)
            item.priority = priority
            self._ready.push(item)
        else:
            item.priority = priority

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
