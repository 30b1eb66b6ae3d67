"""Requests because of what happens to the objects of a kind."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from manager.api import ObjectKey
from manager.cache import CacheEvent, Informer, Part
from manager.controller.handler import Handler
from manager.controller.predicate import Predicate
from manager.controller.priority import Priority
from manager.controller.queue import WorkQueue
from manager.controller.request import Request

__all__ = ["KindSource"]

_REPLAYED_AT_ONCE = 250
"""Some milliseconds' worth."""

_RETRY_BASE = 1.0
"""Seconds until a handler that failed is asked again; twice as long after each further failure."""

_RETRY_CAP = 300.0
_RETRIES = 12
"""How often it is asked again about one event: for some twenty-five minutes."""

_UNDELIVERED = 10_000
"""Objects of which an event waits for another attempt; beyond that the oldest is given up."""


class KindSource:
    """Turns the changes of one shared watch into requests.

    What was there before the controller started comes at low priority, so that whoever changes something
    then does not wait behind all that.
    """

    def __init__(
        self, informer: Informer, handler: Handler | None, *, predicates: Sequence[Predicate] = ()
    ) -> None:
        """Every one of `predicates` has to let an event pass.

        Without a handler nothing is asked for; the controller only waits until the kind is in sync, because
        its reconciler reads it.
        """
        self._informer = informer
        self._handler = handler
        self._predicates = tuple(predicates)

    @property
    def problem(self) -> str | None:
        """What keeps the watch from being in sync, or current."""
        return self._informer.problem

    async def wait_synced(self) -> None:
        """Return once the first list is complete."""
        await self._informer.wait_synced()

    async def run(self, queue: WorkQueue[Request]) -> None:
        """Subscribe until cancelled."""
        if self._handler is None:
            return
        deliver = _Delivery(self._informer, self._predicates, self._handler, queue)
        subscription = self._informer.subscribe(deliver, replay=False)
        try:
            # A warm cache may hold very many: what is there is told in portions, and what changes meanwhile
            # is told at once by the subscription. An object that goes before its turn is asked for in vain.
            for number, record in enumerate(self._informer.list(), start=1):
                deliver(CacheEvent(None, record, initial=True))
                if number % _REPLAYED_AT_ONCE == 0:
                    await asyncio.sleep(0)
            await asyncio.get_running_loop().create_future()
        finally:
            subscription.cancel()
            deliver.close()


@dataclass(slots=True)
class _Undelivered:
    event: CacheEvent
    attempts: int
    timer: asyncio.TimerHandle


class _Delivery:
    """Makes requests of events, and tries again where the handler fails: what it had to say is not known.

    An event that a predicate fails on passes: a reconcile too many does no harm.
    """

    def __init__(
        self,
        informer: Informer,
        predicates: Sequence[Predicate],
        handler: Handler,
        queue: WorkQueue[Request],
    ) -> None:
        self._informer = informer
        self._predicates = predicates
        self._handler = handler
        self._queue = queue
        self._undelivered: OrderedDict[ObjectKey, _Undelivered] = OrderedDict()

    def __call__(self, event: CacheEvent) -> None:
        earlier = self._undelivered.pop(event.key, None) if self._undelivered else None
        if earlier is not None:
            earlier.timer.cancel()
            event = _both(earlier.event, event)
        self._deliver(event, attempts=0)

    def close(self) -> None:
        """Try nothing again any more."""
        for undelivered in self._undelivered.values():
            undelivered.timer.cancel()
        self._undelivered.clear()

    def _deliver(self, event: CacheEvent, *, attempts: int) -> None:
        if not self._passes(event):
            return
        try:
            if event.initial:
                for request in self._handler(event):
                    self._queue.add(request, priority=Priority.LOW)
            else:
                cause = event.change
                for request in self._handler(event):
                    self._queue.add(request, received=event.received, cause=cause)
        except Exception as error:  # noqa: BLE001 - the operator's code may raise anything
            self._put_off(event, error, attempts + 1)

    def _passes(self, event: CacheEvent) -> bool:
        for predicate in self._predicates:
            try:
                if not predicate(event):
                    return False
            except Exception as error:  # noqa: BLE001 - the operator's code may raise anything
                self._informer.failed(Part.PREDICATE, event.key, error, change=event.type.value)
        return True

    def _put_off(self, event: CacheEvent, error: Exception, attempts: int) -> None:
        delay = min(_RETRY_BASE * 2 ** (attempts - 1), _RETRY_CAP) if attempts <= _RETRIES else None
        self._informer.failed(Part.HANDLER, event.key, error, change=event.type.value, retry_in=delay)
        if delay is None:
            return
        if len(self._undelivered) >= _UNDELIVERED:
            _, oldest = self._undelivered.popitem(last=False)
            oldest.timer.cancel()
        timer = asyncio.get_running_loop().call_later(delay, self._deliver_again, event.key)
        self._undelivered[event.key] = _Undelivered(event, attempts, timer)

    def _deliver_again(self, key: ObjectKey) -> None:
        undelivered = self._undelivered.pop(key)
        self._deliver(undelivered.event, attempts=undelivered.attempts)


def _both(earlier: CacheEvent, later: CacheEvent) -> CacheEvent:
    """Two events of one object as one, which tells of all that has changed."""
    old = earlier.old
    if old is None and later.new is None:
        old = later.old  # it came and went: who hears of that may still have to do with it
    event = CacheEvent(old, later.new, initial=earlier.initial and later.initial)
    event.received = later.received
    return event
