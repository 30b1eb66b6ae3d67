"""The sources of requests: predicates, handlers, and sources of events.

A predicate is any callable that gets a `CacheEvent` and returns whether the event needs a reconcile.
Predicates whose names end with `_changed` compare the object before and after the event, even if the event
combines several changes. All but `presence_changed` and `status_changed` pass every creation and deletion.

A handler is any callable that gets a `CacheEvent` and returns requests. If an event changes an object's owner
or label, both the old and the new owner have to be reconciled: the handlers here map the old and the new
object.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from manager.api import ObjectKey, Resource
from manager.cache import CacheEvent, Informer, Meta, Part, Record
from manager.controller.queue import WorkQueue
from manager.controller.reconciler import Priority, Request
from manager.telemetry.runs import Trigger
from manager.util.loop import Portions

Predicate: TypeAlias = Callable[[CacheEvent], bool]


def termination_started(event: CacheEvent) -> bool:
    """Return whether the object's deletion begins; the object exists until its finalizers are gone."""
    return event.old is not None and event.new is not None and event.new.deleting > event.old.deleting


def created_or_deleted(event: CacheEvent) -> bool:
    """Return whether the object is new or gone, or its deletion begins."""
    return event.old is None or event.new is None or _is_replaced(event) or termination_started(event)


def presence_changed(event: CacheEvent) -> bool:
    """Return whether the object is new or gone; at the beginning of its deletion, it counts as gone."""
    return _is_present(event.old) is not _is_present(event.new) or _is_replaced(event)


def generation_changed(event: CacheEvent) -> bool:
    """Return whether the spec has changed; any change counts for a kind without generations."""
    old, new = event.old, event.new
    if old is None or new is None:
        return True
    return new.generation != old.generation or new.generation == 0 or new.uid != old.uid


def label_changed(event: CacheEvent) -> bool:
    """Return whether the labels have changed."""
    return _differs(event, lambda meta: meta.labels)


def annotation_changed(event: CacheEvent) -> bool:
    """Return whether the annotations have changed."""
    return _differs(event, lambda meta: meta.annotations)


def desired_state_changed(event: CacheEvent) -> bool:
    """Return whether the spec, labels, annotations or finalizers changed, or the object's deletion begins.

    Status changes by any client do not pass, except for kinds without generations. An operator's default
    predicate also passes status changes by other clients: `any_of(desired_state_changed, status_changed)`.
    """
    # Written without helpers, because most operators call it for every event.
    old, new = event.old, event.new
    if old is None or new is None or new.generation != old.generation or new.generation == 0:
        return True
    before, after = event.old_meta, event.meta
    return (
        before is None
        or new.uid != old.uid
        or new.deleting > old.deleting
        or after.labels != before.labels
        or after.annotations != before.annotations
        or after.finalizers != before.finalizers
    )


def status_changed(event: CacheEvent) -> bool:
    """Return whether the status of an existing object has changed.

    For the kind whose status an operator writes, no change passes during a reconcile of the object, because
    this reconcile may have made it. At its end, it compares the cached status with the one that it read.
    """
    old, new = event.old, event.new
    if event.reconciling:
        return False
    return old is not None and new is not None and _decode(old.raw).status != _decode(new.raw).status


def any_of(*predicates: Predicate) -> Predicate:
    """Return a predicate that passes an event if at least one of `predicates` does."""

    def passes(event: CacheEvent) -> bool:
        for predicate in predicates:  # noqa: SIM110 - a generator costs more than most predicates
            if predicate(event):
                return True
        return False

    return _made_of(passes, predicates)


def all_of(*predicates: Predicate) -> Predicate:
    """Return a predicate that passes an event if all of `predicates` do."""
    return _made_of(lambda event: all(predicate(event) for predicate in predicates), predicates)


def not_(predicate: Predicate) -> Predicate:
    """Return a predicate that passes an event if `predicate` does not."""
    return _made_of(lambda event: not predicate(event), (predicate,))


def compares_status(predicate: Predicate) -> bool:
    """Return whether the predicate is `status_changed`, or a combination with it."""
    return predicate is status_changed or any(map(compares_status, getattr(predicate, _PARTS, ())))


_PARTS = "parts"


def _made_of(made: Predicate, predicates: Sequence[Predicate]) -> Predicate:
    setattr(made, _PARTS, predicates)
    return made


class _Object(msgspec.Struct):
    status: msgspec.Raw = msgspec.Raw()


_decode = msgspec.json.Decoder(_Object).decode


def _is_present(record: Record | None) -> bool:
    return record is not None and not record.deleting


def _is_replaced(event: CacheEvent) -> bool:
    """Return whether a new object with the same name has replaced the old one between two events."""
    return event.old is not None and event.new is not None and event.new.uid != event.old.uid


def _differs(event: CacheEvent, part: Callable[[Meta], object]) -> bool:
    before = event.old_meta
    if before is None or event.new is None:
        return True
    return part(event.meta) != part(before)


Handler: TypeAlias = Callable[[CacheEvent], Iterable[Request]]

MapTo: TypeAlias = Callable[[Meta], Iterable[Request]]
"""Maps an object's metadata to requests."""


def enqueue_object(event: CacheEvent) -> Iterable[Request]:
    """Request a reconcile of the event's object."""
    return (event.key,)


def enqueue_mapped(map_to: MapTo) -> Handler:
    """Return a handler that requests the objects that `map_to` returns for the event's metadata."""

    def handle(event: CacheEvent) -> Iterable[Request]:
        requests = list(map_to(event.meta))
        before = event.old_meta if event.new is not None else None
        if before is not None:
            requests += map_to(before)
        # Each one once, in order.
        return dict.fromkeys(requests)

    return handle


def enqueue_owner(owner: type[Resource]) -> Handler:
    """Return a handler that requests the object's controller, if the controller is of kind `owner`."""

    def owner_of(meta: Meta) -> Iterable[Request]:
        controller = meta.controller
        if controller is None or not owner.gvk.is_named_by(controller):
            return ()
        return (Request(meta.namespace if owner.namespaced else "", controller.name),)

    return enqueue_mapped(owner_of)


_RETRY_BASE = 1.0
"""Seconds until a failed handler is called again; twice as long after each further failure."""

_RETRY_CAP = 300.0
_RETRIES = 12
"""The number of further calls for one event, in some twenty-five minutes."""

_UNDELIVERED = 10_000
"""The number of objects with an event that waits for another call; then the oldest event is dropped."""

_TICK_SPREAD = 0.1
"""The fraction of the interval over which the requests of one tick are spread."""

_TICK_PAUSE = 0.05
"""Minimum seconds between two portions of a tick's requests."""


class Source:
    """A source of requests for reconciles."""

    problem: str | None = None
    """The reason why the source does not work, for people; None if it works."""

    async def wait_synced(self) -> None:
        """Wait until a reconciler can rely on seeing all existing objects, however long that takes."""

    async def run(self, queue: WorkQueue[Request]) -> None:
        """Add requests to `queue` until cancelled. Its exceptions end the process."""
        raise NotImplementedError


class KindSource(Source):
    """A source that turns the changes of one shared watch into requests.

    Objects that exist at the start of the controller get low priority, so that later changes do not wait for
    them. A predicate that raises counts as passed: a needless reconcile does no harm. If the handler raises,
    it is called again later.
    """

    def __init__(
        self,
        informer: Informer,
        handler: Handler | None,
        *,
        predicates: Sequence[Predicate] = (),
        relation: str = "",
    ) -> None:
        """Create the source. An event must pass all `predicates`. `relation` becomes `Trigger.source`.

        Without a handler, there are no requests; the controller only waits until the kind is in sync, because
        its reconciler reads the kind.
        """
        self._informer = informer
        self._delivers, self._handler = handler is not None, handler or enqueue_object
        self._predicates = tuple(predicates)
        self._kind, self._relation = informer.spec.gvk.kind, relation
        self._found = Trigger("found", source=relation, kind=self._kind)  # one for all objects
        self._queue: WorkQueue[Request]
        self._undelivered: dict[ObjectKey, tuple[CacheEvent, asyncio.TimerHandle]] = {}
        self.reconciling: Callable[[ObjectKey], bool] | None = None
        """Returns whether an object of the controller's own kind is being reconciled."""

    @property
    def problem(self) -> str | None:  # type: ignore[override] # only read
        """Return the reason why the watch is not in sync or not current; None if it is."""
        return self._informer.problem

    async def wait_synced(self) -> None:
        """Wait until the first list is complete."""
        await self._informer.wait_synced()

    async def run(self, queue: WorkQueue[Request]) -> None:
        """Subscribe until cancelled."""
        if not self._delivers:
            return
        self._queue = queue
        cancel = self._informer.subscribe(self._hear, replay=False)
        try:
            # A warm cache may have very many objects, so this loop adds them in portions, and the
            # subscription adds changes meanwhile. The request for an object that is deleted before its turn
            # does nothing.
            portions = Portions()
            for record in self._informer.list():
                await portions.begin(len(record.raw))
                self._hear(CacheEvent(None, record, initial=True))
            await asyncio.get_running_loop().create_future()
        finally:
            cancel()
            for _, timer in self._undelivered.values():
                timer.cancel()
            self._undelivered.clear()

    def _hear(self, event: CacheEvent) -> None:
        if self._undelivered and (undelivered := self._undelivered.pop(event.key, None)) is not None:
            earlier, timer = undelivered
            timer.cancel()
            event = _both(earlier, event)
        if not event.handed_over:
            self._deliver(event, attempts=0)

    def _deliver(self, event: CacheEvent, *, attempts: int) -> None:
        event.reconciling = self.reconciling is not None and self.reconciling(event.key)
        for predicate in self._predicates:
            try:
                if not predicate(event):
                    return
            except Exception as error:  # noqa: BLE001 - the operator's code may raise anything
                self._informer.failed(Part.PREDICATE, event.key, error, change=event.type.value)
        try:
            if event.initial:
                for request in self._handler(event):
                    self._queue.add(request, priority=Priority.LOW, trigger=self._found)
            elif requests := self._handler(event):
                cause, trigger = event.change, trigger_of(event, "event", self._relation, self._kind)
                for request in requests:
                    self._queue.add(request, trigger=trigger, cause=cause)
        except Exception as error:  # noqa: BLE001 - the operator's code may raise anything
            self._put_off(event, error, attempts + 1)

    def _put_off(self, event: CacheEvent, error: Exception, attempts: int) -> None:
        delay = min(_RETRY_BASE * 2 ** (attempts - 1), _RETRY_CAP) if attempts <= _RETRIES else None
        self._informer.failed(Part.HANDLER, event.key, error, change=event.type.value, retry_in=delay)
        if delay is None:
            return
        if len(self._undelivered) >= _UNDELIVERED:
            self._undelivered.pop(next(iter(self._undelivered)))[1].cancel()
        timer = asyncio.get_running_loop().call_later(delay, self._deliver_again, event.key, attempts)
        self._undelivered[event.key] = event, timer

    def _deliver_again(self, key: ObjectKey, attempts: int) -> None:
        event, _ = self._undelivered.pop(key)
        self._deliver(event, attempts=attempts)


def trigger_of(event: CacheEvent, why: str, relation: str, kind: str) -> Trigger:
    """Return a trigger that describes an event of a `kind` object in the reconcile record."""
    old, new, key = event.old, event.new, event.key
    return Trigger(
        why,
        event.received,
        event.type.value,
        relation,
        kind,
        key.namespace,
        key.name,
        0 if old is None else old.version,
        0 if new is None else new.version,
    )


def _both(earlier: CacheEvent, later: CacheEvent) -> CacheEvent:
    """Combine two events of one object into one that covers all changes."""
    old = earlier.old
    if old is None and later.new is None:
        old = later.old  # the object was created and deleted: its old state still determines the requests
    event = CacheEvent(
        old, later.new, initial=earlier.initial and later.initial, handed_over=later.handed_over
    )
    event.received = later.received
    return event


class ChannelSource(Source):
    """A source of requests from code, such as a listener of another system or another controller.

    It stores requests that arrive while the controller does not run, each of them once, without its delay.
    """

    def __init__(self) -> None:
        self._queue: WorkQueue[Request] | None = None
        self._kept: dict[Request, tuple[int, Trigger]] = {}

    def send(
        self,
        request: Request,
        *,
        priority: int = Priority.NORMAL,
        after: float = 0.0,
        trigger: Trigger | None = None,
    ) -> None:
        """Request a reconcile after `after` seconds without waiting; call it in the event loop's thread."""
        if self._queue is None:
            trigger = trigger or Trigger("asked")
            kept, _ = self._kept.get(request, (priority, trigger))
            self._kept[request] = max(priority, kept), trigger
        else:
            trigger = trigger or Trigger("asked", asyncio.get_running_loop().time())
            self._queue.add(request, priority=priority, after=after, trigger=trigger)

    async def run(self, queue: WorkQueue[Request]) -> None:
        """Add the stored requests, and then new ones, until cancelled."""
        self._queue = queue
        for request, (priority, trigger) in self._kept.items():
            queue.add(request, priority=priority, trigger=trigger)
        self._kept.clear()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._queue = None


class TickerSource(Source):
    """A source that requests the same objects periodically, for changes that no watch reports."""

    def __init__(
        self,
        interval: float,
        requests: Callable[[], Iterable[Request]],
        *,
        jitter: float = 0.1,
        why: str = "resync",
        rng: random.Random,
    ) -> None:
        """Call `requests()` every `interval` seconds, plus or minus the fraction `jitter`.

        The requests are spread over a tenth of the interval. `why` becomes `Trigger.why`.
        """
        self._interval = interval
        self._requests = requests
        self._jitter = jitter
        self._rng = rng
        self.why = why
        self.next_at: float | None = None
        """The loop time of the next tick; None before the first run."""

    async def run(self, queue: WorkQueue[Request]) -> None:
        """Tick until cancelled, first after one interval."""
        now = asyncio.get_running_loop().time
        tick = now()
        while True:
            # Counted from the last tick, not from the end of its requests.
            tick = max(now(), tick + self._interval * (1 + self._rng.uniform(-self._jitter, self._jitter)))
            self.next_at = tick
            await asyncio.sleep(tick - now())
            await self._ask(queue)

    async def _ask(self, queue: WorkQueue[Request]) -> None:
        requests = tuple(self._requests())
        spread, count = self._interval * _TICK_SPREAD, len(requests)
        trigger = Trigger(self.why, asyncio.get_running_loop().time())
        portions = max(1, min(count, int(spread / _TICK_PAUSE)))
        for portion in range(portions):
            if portion:
                await asyncio.sleep(spread / portions)
            for request in requests[count * portion // portions : count * (portion + 1) // portions]:
                queue.add(request, priority=Priority.LOW, trigger=trigger)
