"""Base class of controllers, with a view of the stored objects, a work queue, and a client."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from devcluster.api.local import LocalClient
from devcluster.clock import Clock
from devcluster.controllers.client import (
    PODS,
    REPLICA_SETS,
    REVISIONS,
    EventRecorder,
    Metadata,
    Object,
    OwnerReference,
    Resource,
    is_going,
    metadata_of,
)
from devcluster.controllers.pod_status import seconds_until_available
from devcluster.errors import StatusError, qualified
from devcluster.kinds import conditions
from devcluster.storage import Change, Key, Store, Stored
from devcluster.storage.selectors import LabelSelector

BACKOFF_START = 0.005
BACKOFF_LIMIT = 30.0
SHORTEST_DELAY = 0.001
LONG, PAUSE_FACTOR, LONGEST_PAUSE = 0.005, 5.0, 0.5
"""Seconds of work after which a key pauses, the ratio of pause to work, and the maximum pause in seconds."""

Name = tuple[str, ...]
"""A queue's key, usually (namespace, name)."""


class WorkQueue:
    """Work queue of keys, first in, first out, as in client-go.

    A key that is added several times is queued once. A key that is added while it is in progress is queued
    again after `done`. With `batch_period`, a key is ready only that number of seconds after `add`, to
    combine several changes.
    """

    def __init__(self, *, batch_period: float = 0.0) -> None:
        self._batch_period = batch_period
        self._ready: deque[Name] = deque()
        self._waiting: set[Name] = set()
        self._working: set[Name] = set()
        self._timers: dict[Name, tuple[float, asyncio.Handle]] = {}
        self._failures: dict[Name, int] = {}
        self._pauses: dict[Name, float] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, key: Name) -> None:
        """Queue a key for the next free worker, after the batch period or the pause set by `done`."""
        delay = self._pauses.get(key, self._batch_period)
        if delay:
            self.add_after(key, delay)
        else:
            self._add(key)

    def add_after(self, key: Name, seconds: float) -> None:
        """Queue a key after a delay, or at the earlier time that a former call has set for it."""
        loop = asyncio.get_running_loop()
        # A timer may fire slightly early; the minimum delay avoids further timers for the same time.
        due = loop.time() + max(seconds, SHORTEST_DELAY)
        timer = self._timers.get(key)
        if timer is not None:
            earlier, handle = timer
            if earlier <= due:
                return
            handle.cancel()
        # The time is stored with the handle, because uvloop's handle loses it shortly before it is due.
        self._timers[key] = due, loop.call_at(due, self._due, key)

    def retry(self, key: Name) -> None:
        """Queue the key after a delay, which grows with each call until `forget`."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, min(BACKOFF_START * 2.0 ** min(failures, 30), BACKOFF_LIMIT))

    def forget(self, key: Name) -> None:
        """Reset the number of failures of the key."""
        self._failures.pop(key, None)

    async def get(self) -> Name:
        """Return the next key, waiting if there is none; the key is in progress until `done`."""
        while not self._ready:
            self._wake.clear()
            await self._wake.wait()
        key = self._ready.popleft()
        self._waiting.discard(key)
        self._working.add(key)
        return key

    def done(self, key: Name, *, took: float = 0.0) -> None:
        """Mark the key as no longer in progress; `took` is the number of seconds that the work took.

        After slow work, `add` queues the key only after a pause in proportion to `took`, at most half a
        second. So the owner of a thousand pods is not reconciled for each pod.
        """
        self._working.discard(key)
        if took > LONG:
            self._pauses[key] = min(took * PAUSE_FACTOR, LONGEST_PAUSE)
        else:
            self._pauses.pop(key, None)
        if key in self._waiting:
            if key in self._pauses:
                self._waiting.discard(key)
                self.add(key)
            else:
                self._enqueue(key)

    def close(self) -> None:
        for _, handle in self._timers.values():
            handle.cancel()
        self._timers.clear()

    def _due(self, key: Name) -> None:
        del self._timers[key]
        self._add(key)

    def _add(self, key: Name) -> None:
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._working:
            self._enqueue(key)

    def _enqueue(self, key: Name) -> None:
        self._ready.append(key)
        self._wake.set()


LABELLED = (PODS, REPLICA_SETS, REVISIONS)
"""Resources with an index by label."""


class View:
    """View of the store for controllers. It has no cache, so a controller reads its own writes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keys: dict[str, Key] = {}
        self._metadata: dict[Key, Metadata] = {}
        self._dependents: defaultdict[str, dict[Key, None]] = defaultdict(dict)
        self._namespaces: defaultdict[str, defaultdict[Resource, int]] = defaultdict(lambda: defaultdict(int))
        self._labelled: defaultdict[tuple[Resource, str, str, str], dict[Key, None]] = defaultdict(dict)

    def load(self) -> Iterator[Stored]:
        """Yield all objects in the store, after adding them to the indexes."""
        for group, plural in self._store.resources():
            for stored in self._store.select(group, plural):
                self._add(stored)
                yield stored

    def apply(self, change: Change) -> None:
        """Update the indexes after a change of the store."""
        if change.old is not None:
            self._remove(change.old)
        if change.new is not None:
            self._add(change.new)

    # Reading

    def stored(self, resource: Resource, namespace: str, name: str) -> Stored | None:
        """Return an object in its stored form, or None if it does not exist."""
        return self._store.get(Key(*resource, namespace, name))

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return a copy of an object, or None if it does not exist."""
        stored = self.stored(resource, namespace, name)
        return None if stored is None else stored.decode()

    def at(self, key: Key) -> Object | None:
        """Return a copy of the object with this key, or None if it does not exist."""
        return self.get(key[:2], key.namespace, key.name)

    def select(self, resource: Resource, namespace: str = "") -> list[Stored]:
        """Return the objects of a resource in a namespace; "" means all namespaces."""
        return list(self._store.select(*resource, namespace))

    def metadata(self, key: Key) -> Metadata | None:
        """Return the object's owners, finalizers and deletion time, or None if it has none of these."""
        return self._metadata.get(key)

    def find(self, uid: str) -> Key | None:
        """Return the key of the object with this UID, or None."""
        return self._keys.get(uid)

    def dependents(self, uid: str) -> list[Key]:
        """Return the keys of the objects that have `uid` in their owner references."""
        return list(self._dependents.get(uid, ()))

    def owned(self, resource: Resource, uid: str) -> list[Object]:
        """Return copies of the resource's objects whose controller has this UID."""
        found = []
        for key in self._dependents.get(uid, ()):
            if key[:2] == resource:
                metadata = self._metadata.get(key)
                manager = metadata.controller if metadata else None
                if manager is not None and manager.uid == uid and (obj := self.at(key)) is not None:
                    found.append(obj)
        return found

    def selected(self, resource: Resource, namespace: str, selector: Object | None) -> list[Stored]:
        """Return the objects of a LABELLED resource that the selector matches; None matches none, {} all."""
        if selector is None:
            return []
        matcher = LabelSelector.of(selector)
        exact = selector.get("matchLabels") or {}
        if not exact:
            return [each for each in self.select(resource, namespace) if matcher.matches(each.labels)]
        smallest = min(
            (self._labelled.get((resource, namespace, name, value), {}) for name, value in exact.items()),
            key=len,
        )
        found = (self._store.get(key) for key in sorted(smallest))
        return [each for each in found if each is not None and matcher.matches(each.labels)]

    def resources_in(self, namespace: str) -> dict[Resource, int]:
        """Return the number of objects in a namespace, by resource."""
        return dict(self._namespaces.get(namespace, {}))

    # Indexes

    def _add(self, stored: Stored) -> None:
        key = stored.key
        self._keys[stored.uid] = key
        if key.namespace:
            self._namespaces[key.namespace][key.group, key.plural] += 1
        metadata = metadata_of(stored)
        if metadata.owner_references or metadata.finalizers or metadata.deletion_timestamp:
            self._metadata[key] = metadata
            for owner in metadata.owner_references:
                self._dependents[owner.uid][key] = None
        if key[:2] in LABELLED:
            for name, value in stored.labels.items():
                self._labelled[key[:2], key.namespace, name, value][key] = None

    def _remove(self, stored: Stored) -> None:
        key = stored.key
        self._keys.pop(stored.uid, None)
        if key.namespace:
            counts = self._namespaces[key.namespace]
            counts[key.group, key.plural] -= 1
            if not counts[key.group, key.plural]:
                del counts[key.group, key.plural]
            if not counts:
                del self._namespaces[key.namespace]
        metadata = self._metadata.pop(key, None)
        if metadata is not None:
            for owner in metadata.owner_references:
                _discard(self._dependents, owner.uid, key)
        if key[:2] in LABELLED:
            for name, value in stored.labels.items():
                _discard(self._labelled, (key[:2], key.namespace, name, value), key)


def _discard(index: dict[Any, dict[Key, None]], entry: Any, key: Key) -> None:
    keys = index.get(entry)
    if keys is not None:
        keys.pop(key, None)
        if not keys:
            del index[entry]


log = logging.getLogger("devcluster.controllers")

ANYTHING = ("*", "*")
"""Any resource, as a key of `routes`."""

Handler = Callable[[Change], None]
Routes = Mapping[tuple[str, str], Handler]
"""Handlers of changes, by (group, plural)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Environment:
    """Dependencies that every controller needs."""

    client: LocalClient
    view: View
    clock: Clock
    rng: random.Random
    events: EventRecorder


class Controller:
    """Base class of a controller. A subclass defines `routes` (the resources it watches) and `sync`."""

    name = ""
    batch_period = 0.0
    """Seconds that a key waits for further changes, which saves writes of intermediate states."""

    def __init__(self, environment: Environment) -> None:
        self.client = environment.client
        self.view = environment.view
        self.clock = environment.clock
        self.rng = environment.rng
        self.events = environment.events
        self.queue = WorkQueue(batch_period=self.batch_period)

    def routes(self) -> Routes:
        """Return the handler of changes for each watched resource."""
        raise NotImplementedError

    async def sync(self, key: Name) -> None:
        """Reconcile the object with this key; raise an error to retry."""
        raise NotImplementedError

    async def start(self) -> None:
        """Prepare the controller before its first key; the default does nothing."""

    async def run(self) -> None:
        """Process keys of the queue until cancelled."""
        try:
            while True:
                await self._work(await self.queue.get())
                # Other tasks run between two keys, even under load.
                await asyncio.sleep(0)
        finally:
            self.queue.close()

    def living(self, resource: Resource, key: Name) -> Object | None:
        """Return a copy of an object, or None if it does not exist or is being deleted."""
        obj = self.view.get(resource, *key)
        return None if obj is None or is_going(obj) else obj

    # Writes, which pass through the same steps as external requests. Each raises StatusError.

    async def create(self, resource: Resource, obj: Object) -> Object:
        return await self.client.create(qualified(*resource), obj["metadata"].get("namespace", ""), obj)

    async def update(self, resource: Resource, obj: Object, *, subresource: str = "") -> Object:
        """Replace an object if its resourceVersion is still current."""
        namespace = obj["metadata"].get("namespace", "")
        return await self.client.update(qualified(*resource), namespace, obj, subresource=subresource)

    async def write_status(self, resource: Resource, obj: Object, status: Object) -> Object:
        """Write `status` if it differs from the object's status; return the object after the write."""
        if status == (obj.get("status") or {}):
            return obj
        return await self.update(resource, {**obj, "status": status}, subresource="status")

    async def patch(self, resource: Resource, obj: Object, **metadata: Any) -> Object:
        """Change fields of an object's metadata, if the object still has the same UID."""
        about = obj["metadata"]
        patch = {"metadata": {"uid": about["uid"], **metadata}}
        return await self.client.patch(qualified(*resource), about["namespace"], about["name"], patch)

    async def delete(self, resource: Resource, obj: Object, *, propagation: str = "Background") -> None:
        """Delete an object, if it still has the same UID."""
        about = obj["metadata"]
        namespace, name, uid = about.get("namespace", ""), about["name"], about["uid"]
        await self.client.delete(qualified(*resource), namespace, name, uid=uid, propagation=propagation)

    async def disrupt(self, pod: Object, reason: str, message: str) -> None:
        """Delete a pod that must leave its node, after adding the condition DisruptionTarget."""
        status = pod.get("status") or {}
        condition = {
            "type": "DisruptionTarget",
            "observedGeneration": pod["metadata"].get("generation", 1),
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": self.clock.timestamp(),
            "reason": reason,
            "message": message,
        }
        changed = {**status, "conditions": conditions.replaced(status.get("conditions") or (), condition)}
        await self.write_status(PODS, pod, changed)
        await self.delete(PODS, pod)

    # Events and waiting

    def normal(self, about: Object, reason: str, message: str) -> None:
        self.events.record(about, "Normal", reason, message, component=self.name)

    def warn(self, about: Object, reason: str, message: str) -> None:
        self.events.record(about, "Warning", reason, message, component=self.name)

    def await_availability(self, key: Name, owner: Object, pods: Sequence[Object]) -> None:
        """Queue the key for the time when the next pod of `owner` becomes available (minReadySeconds)."""
        if min_ready := owner["spec"].get("minReadySeconds", 0):
            now = self.clock.now()
            waits = [seconds_until_available(pod, min_ready, now) for pod in pods]
            if pending := [seconds for seconds in waits if seconds is not None and seconds > 0]:
                self.queue.add_after(key, min(pending))

    # Handlers for routes

    def enqueue(self, change: Change) -> None:
        """Queue the key of the object that changed."""
        self.queue.add((change.key.namespace, change.key.name))

    def enqueue_controller(self, kind: str) -> Handler:
        """Return a handler that queues a changed object's controller, if the controller's kind is `kind`."""

        def handle(change: Change) -> None:
            for stored in (change.old, change.new):
                owner = _controller(stored)
                if owner is not None and owner.kind == kind:
                    self.queue.add((change.key.namespace, owner.name))

        return handle

    def enqueue_all(self, resource: Resource, namespace: str = "") -> None:
        """Queue all objects of a resource in a namespace; "" means all namespaces."""
        for stored in self.view.select(resource, namespace):
            self.queue.add((stored.key.namespace, stored.key.name))

    def enqueue_owner(self, resource: Resource, kind: str) -> Handler:
        """Return a handler that queues a changed object's controller, or the owners that may adopt it."""
        enqueue_controller = self.enqueue_controller(kind)

        def handle(change: Change) -> None:
            enqueue_controller(change)
            new = change.new
            if new is None or not new.labels or _controller(new) is not None:
                return
            for stored in self.view.select(resource, change.key.namespace):
                selector = stored.decode()["spec"].get("selector")
                if selector and LabelSelector.of(selector).matches(new.labels):
                    self.queue.add((stored.key.namespace, stored.key.name))

        return handle

    async def _work(self, key: Name) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            await self.sync(key)
        except StatusError as error:
            log.debug("controller %s: the reconcile of %s failed: %s", self.name, "/".join(key), error)
            if not is_namespace_going(error):
                self.queue.retry(key)
        except Exception:
            log.exception("controller %s: the reconcile of %s failed", self.name, "/".join(key))
            self.queue.retry(key)
        else:
            self.queue.forget(key)
        finally:
            self.queue.done(key, took=clock() - began)


def is_namespace_going(error: StatusError) -> bool:
    """Return whether the error says that the namespace is terminating, so that a retry cannot succeed."""
    causes = error.details.get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def _controller(stored: Stored | None) -> OwnerReference | None:
    return None if stored is None else metadata_of(stored).controller
