"""The queue of keys that a controller works through."""

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
    """A counter of each key's failures, which returns the wait after each.

    The wait grows only after it has been waited out. Otherwise an object that changes often during an outage
    of seconds would wait for a quarter of an hour after it.
    """

    def __init__(
        self, *, base: float = 0.005, cap: float = 1000.0, jitter: float = 0.1, rng: random.Random
    ) -> None:
        """Take delays in seconds; `manager.util.backoff.ExponentialDelay` describes them."""
        self._delay = ExponentialDelay(base=base, cap=cap, jitter=jitter, rng=rng)
        # How often each key has failed, and until when it waits.
        self._failures: dict[K, tuple[int, float]] = {}

    def __len__(self) -> int:
        """How many keys have failed and not been forgotten."""
        return len(self._failures)

    def next_delay(self, key: K, *, now: float) -> float:
        """Note a failure of `key` at the time `now`; return the seconds until the next attempt."""
        failures, due = self._failures.get(key, (0, now))
        if now < due:
            return due - now
        delay = self._delay(failures)
        self._failures[key] = (failures + 1, now + delay)
        return delay

    def retries(self, key: K) -> int:
        """How many waits of `key` have begun since it was last forgotten."""
        return self._failures.get(key, (0, 0.0))[0]

    def forget(self, key: K) -> None:
        """Start afresh with `key`."""
        self._failures.pop(key, None)


@dataclass(slots=True, eq=False)
class QueueItem(Generic[K]):
    """A key that wants to be worked on. All times are seconds on the loop's clock."""

    key: K
    priority: int
    triggers: tuple[Trigger, ...] = ()
    """The first requests for it."""
    triggered: int = 1
    """How many requests there were in all."""
    due: float | None = None
    """When its delay ends; None without one."""
    since: float = 0.0
    """Since when it has been ready to be worked on; meaningless while it is delayed."""
    causes: set[Hashable] | None = None
    """All causes of the requests, if each named one and the key was being worked on; else None."""

    def asked_again(self, trigger: Trigger | None, cause: Hashable | None) -> None:
        """Count another request for the key."""
        self.triggered += 1
        if trigger is not None and len(self.triggers) < MOST_TRIGGERS:
            self.triggers += (trigger,)
        if cause is None:
            self.causes = None
        elif self.causes is not None:
            self.causes.add(cause)


_SLACK = 64
"""So many dead entries are not worth a rebuild of the heap."""

AGED_TURN = 8
"""One turn in so many goes to an aged item while there are any."""

_Level: TypeAlias = "OrderedDict[K, QueueItem[K]]"


class ReadyItems(Generic[K]):
    """Ready items: higher priorities first, by arrival within each, and no priority ever starves another.

    Once the first item of a lower priority has waited `ageing` seconds, at least one turn in `AGED_TURN` goes
    to such an item, the longest-waiting first. So an item with n others in front of it at or below its
    priority waits for its ageing and then for at most `AGED_TURN * (n + 1)` turns, whatever arrives above it;
    and a fresh item of a higher priority has, for each `AGED_TURN - 1` of its own kind before it, one old
    item in front of it, not the whole backlog.
    """

    def __init__(self, *, ageing: float) -> None:
        self._ageing = ageing
        # A dict per priority would do for the order, but finding its first item again and again takes
        # time quadratic in the number of removed items before it; the ordered one has links.
        self._levels: dict[int, _Level[K]] = {
            priority: OrderedDict() for priority in sorted(Priority, reverse=True)
        }
        self.length = 0
        """How many items wait."""
        self._passed_over = 0

    def depth(self, priority: Priority) -> int:
        """How many items of this priority wait."""
        return len(self._levels[priority])

    def oldest(self, now: float) -> float:
        """For how many seconds the oldest key has waited."""
        return max((now - _waiting_since(level) for level in self._levels.values() if level), default=0.0)

    def push(self, item: QueueItem[K]) -> None:
        """Put `item` last in its priority."""
        self._levels[item.priority][item.key] = item
        self.length += 1

    def remove(self, item: QueueItem[K]) -> None:
        """Take an item out that waits here."""
        del self._levels[item.priority][item.key]
        self.length -= 1

    def pop(self, now: float) -> QueueItem[K]:
        """Take the item whose turn it is; there has to be one."""
        waiting = [level for level in self._levels.values() if level]
        level = waiting[0] if len(waiting) == 1 else self._choose(waiting, now)
        self.length -= 1
        return level.popitem(last=False)[1]

    def clear(self) -> None:
        """Let all items go."""
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
    """A queue of keys to work on: it has each key once, and hands it to one worker at a time.

    A key that is added while it is worked on is handed out again after `done`, so that no change goes
    unseen. Adding a waiting key can only raise its priority or bring its time forward: the higher of the two
    priorities and the earlier of the two times count. A delayed key that is added without a delay is
    therefore ready at once, and its old time is gone: the next reconcile decides anew when to come back.

    Higher priorities go first, and none starves: see `ReadyItems`.

    All methods but `get` return at once. Make and use a queue in one running event loop.
    """

    def __init__(self, name: str, *, metrics: Metrics, backoff: KeyBackoff[K], ageing: float = 10.0) -> None:
        """`name` labels the metrics. `ageing` is how many seconds a lower priority waits for its turns."""
        self._loop = asyncio.get_running_loop()
        self._count_added = counting(metrics.queue_adds.labels(name, name))
        self._count_retried = counting(metrics.queue_retries.labels(name, name))
        self._observe_waited = observing(metrics.queue_latency.labels(name, name))
        self._observe_worked = observing(metrics.work_duration.labels(name, name))
        self._backoff = backoff
        self.forget, self.retries = backoff.forget, backoff.retries
        # Every key that wants to run is in here, and besides in one of: the delayed ones, the ready ones,
        # or (added while it is worked on) among the keys in progress.
        self._items: dict[K, QueueItem[K]] = {}
        # One timer for all delayed items. The heap's order is by time and arrival. An item that is no longer
        # due at the time of its entry has left the entry for dead.
        self._heap: list[tuple[float, int, QueueItem[K]]] = []
        self._arrivals = count()
        self._timer: asyncio.Handle | None = None
        self._armed_for = math.inf  # uvloop's handle of a callback that is due at once has no time
        self._ready: ReadyItems[K] = ReadyItems(ageing=ageing)
        self.depth = self._ready.depth
        """How many keys of a priority could be handed out now."""
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
        """How many keys could be handed out now."""
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
        """Request work on `key`, `after` seconds from now.

        `trigger` explains the request in the reconcile record, and `cause` identifies it for
        `discard_if_only`. Does nothing once the queue is shut down.
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
        """Ask for `key` to be worked on after its back-off; answers the seconds.

        This lengthens the back-off if it was waited out since the last time.
        """
        now = self._loop.time()
        delay = self._backoff.next_delay(key, now=now)
        if not self.is_shut_down:
            self._count_retried()
        self.add(key, priority=priority, after=delay, trigger=Trigger("back-off", now))
        return delay

    def discard_if_only(self, key: K, causes: AbstractSet[Hashable]) -> bool:
        """Drop the next work on `key`, which is in progress, if only `causes` have requested it since.

        Returns whether they have. Requests for a later time stay.
        """
        item = self._items.get(key)
        if item is None or item.due is not None or item.causes is None or not item.causes <= causes:
            return False
        del self._items[key]
        return True

    def waiting(self, key: K) -> QueueItem[K] | None:
        """Return the item of `key` that is ready or delayed, or None."""
        return self._items.get(key)

    async def get(self) -> QueueItem[K] | None:
        """Wait for the next item to work on; the caller must call `done` for its key.

        Returns None once the queue is shut down.
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
                    with suppress(ValueError):  # `_wake_one` may have met it first
                        self._getters.remove(getter)
                else:
                    # This getter was woken for a key and cancelled before it took it: wake another one.
                    self._wake_one()
                raise
        now = self._loop.time()
        item = self._ready.pop(now)
        del self._items[item.key]
        self._in_progress[item.key] = now
        self._observe_waited(now - item.since)
        return item

    def done(self, key: K) -> None:
        """End the work on `key`, whatever its result. Raises `KeyError` unless `get` has returned the key."""
        started = self._in_progress.pop(key)
        self._observe_worked(self._loop.time() - started)
        item = self._items.get(key)
        if item is not None and item.due is None:
            self._offer(item)

    def pause(self, key: K) -> None:
        """Stop handing out `key` until `resume`; the queue keeps requests for it meanwhile."""
        if (item := self._takeable(key)) is not None:
            self._ready.remove(item)
        self._paused_keys.add(key)

    def resume(self, key: K) -> None:
        """Hand `key` out again."""
        if key not in self._paused_keys:
            return
        self._paused_keys.remove(key)
        if (item := self._takeable(key)) is not None:
            item.since = self._loop.time()  # it did not wait for a worker
            self._offer(item)

    def is_paused(self, key: K) -> bool:
        """Return whether `pause` was called for the key."""
        return key in self._paused_keys

    @property
    def paused(self) -> bool:
        """Return whether the queue hands out no key at all; it keeps requests meanwhile."""
        return self._paused

    @paused.setter
    def paused(self, paused: bool) -> None:
        self._paused = paused
        for _ in range(0 if paused else self._ready.length):
            self._wake_one()

    def shut_down(self) -> None:
        """Take no more keys, and drop the waiting ones. May be called again."""
        self.is_shut_down = True
        self._heap.clear()
        self._arm()
        self._items.clear()
        self._ready.clear()
        for _ in range(len(self._getters)):
            self._wake_one()

    @property
    def delayed(self) -> int:
        """How many keys wait for a time to come."""
        return sum(item.due is not None for item in self._items.values())

    @property
    def running(self) -> int:
        """How many keys are worked on."""
        return len(self._in_progress)

    def oldest(self) -> float:
        """Return for how many seconds the first key that could be handed out now has waited."""
        return self._ready.oldest(self._loop.time())

    def next_retry(self) -> float:
        """In how many seconds the next delay ends; 0 where there is none."""
        due = self._first_due()
        return 0.0 if due == math.inf else max(due - self._loop.time(), 0.0)

    def unfinished(self) -> float:
        """Sum of the ages of the work in progress, in seconds."""
        return len(self._in_progress) * self._loop.time() - sum(self._in_progress.values())

    def longest_running(self) -> float:
        """Age of the oldest work in progress, in seconds."""
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
        """Return when the first delay ends; infinity where there is none."""
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
        """Return the item of a key that is ready, unless the key is paused or worked on."""
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
