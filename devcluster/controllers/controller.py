"""A controller: changes become keys in its queue, and one worker brings each to the state it should have."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
from collections.abc import Callable, Mapping

from devcluster.clock import Clock
from devcluster.controllers.client import Client
from devcluster.controllers.events import EventRecorder
from devcluster.controllers.metadata import OwnerReference, metadata_of
from devcluster.controllers.queue import WorkQueue
from devcluster.controllers.view import View
from devcluster.errors import StatusError
from devcluster.storage import Change, Stored
from devcluster.storage.selectors import LabelSelector

__all__ = ["ANYTHING", "Controller", "Environment", "Handler", "Name", "Routes", "is_namespace_going"]

log = logging.getLogger("devcluster.controllers")

Name = tuple[str, ...]
"""A queue's key, usually (namespace, name)."""

ANYTHING = ("*", "*")
"""Any resource, as a key of `routes`."""

Handler = Callable[[Change], None]
Routes = Mapping[tuple[str, str], Handler]
"""Handlers of changes, by (group, plural)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Environment:
    """The environment that every controller works with."""

    client: Client
    view: View
    clock: Clock
    rng: random.Random
    events: EventRecorder


class Controller:
    """A loop over keys. A subclass names its watched resources (`routes`) and its work (`sync`)."""

    name = ""
    batch_period = 0.0
    """Seconds that a key waits for further changes, which saves writes of intermediate states."""

    def __init__(self, environment: Environment) -> None:
        self.client = environment.client
        self.view = environment.view
        self.clock = environment.clock
        self.rng = environment.rng
        self.events = environment.events
        self.queue: WorkQueue[Name] = WorkQueue(batch_period=self.batch_period)

    def routes(self) -> Routes:
        """Return the handlers of changes by resource."""
        raise NotImplementedError

    async def sync(self, key: Name) -> None:
        """Bring the object of that key to where it should be; raises to be called again later."""
        raise NotImplementedError

    async def start(self) -> None:
        """Prepare the controller before its first key; the default does nothing."""

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                await self._work(await self.queue.get())
                # Other tasks get their turn, even under load.
                await asyncio.sleep(0)
        finally:
            self.queue.close()

    # Handlers for routes.

    def enqueue(self, change: Change) -> None:
        """Queue the object that changed."""
        self.queue.add((change.key.namespace, change.key.name))

    def enqueue_controller(self, kind: str) -> Handler:
        """Return a handler that queues the controller owner of a changed object, if it is of that kind."""

        def handle(change: Change) -> None:
            for stored in (change.old, change.new):
                owner = _controller(stored)
                if owner is not None and owner.kind == kind:
                    self.queue.add((change.key.namespace, owner.name))

        return handle

    def enqueue_selecting(self, resource: tuple[str, str], change: Change) -> None:
        """Queue the objects of `resource` that select a changed orphan, since they may adopt it."""
        new = change.new
        if new is None or not new.labels or _controller(new) is not None:
            return
        for stored in self.view.select(resource, change.key.namespace):
            selector = stored.decode()["spec"].get("selector")
            if selector and LabelSelector.of(selector).matches(new.labels):
                self.queue.add((stored.key.namespace, stored.key.name))

    async def _work(self, key: Name) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            await self.sync(key)
        except StatusError as error:
            log.debug("%s: %s: %s", self.name, "/".join(key), error)
            if not is_namespace_going(error):
                self.queue.retry(key)
        except Exception:
            log.exception("%s: %s", self.name, "/".join(key))
            self.queue.retry(key)
        else:
            self.queue.forget(key)
        finally:
            self.queue.done(key, took=clock() - began)


def is_namespace_going(error: StatusError) -> bool:
    """Return whether the error is from a terminating namespace, where no retry can succeed."""
    causes = error.details.get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def _controller(stored: Stored | None) -> OwnerReference | None:
    return None if stored is None else metadata_of(stored).controller
