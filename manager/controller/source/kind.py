"""Requests because of what happens to the objects of a kind."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from manager.cache import CacheEvent, Informer
from manager.controller.handler import Handler
from manager.controller.predicate import Predicate
from manager.controller.priority import Priority
from manager.controller.queue import WorkQueue
from manager.controller.request import Request

__all__ = ["KindSource"]

_REPLAYED_AT_ONCE = 250
"""Some milliseconds' worth."""


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
        handler = self._handler
        if handler is None:
            return
        predicates = self._predicates

        def deliver(event: CacheEvent) -> None:
            for predicate in predicates:
                if not predicate(event):
                    return
            if event.initial:
                for request in handler(event):
                    queue.add(request, priority=Priority.LOW)
            else:
                cause = event.change
                for request in handler(event):
                    queue.add(request, received=event.received, cause=cause)

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
