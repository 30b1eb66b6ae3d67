"""A shared watch of one kind with its objects, subscribers and reflectors."""

from __future__ import annotations

import asyncio
import enum
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from manager.api import GroupVersionKind, ObjectKey
from manager.cache.record import CacheEvent, Change, Meta, Record, RecordDecoder, note_own_write
from manager.cache.reflector import Reflector, Upstream
from manager.cache.sink import Sink, WatchFilter
from manager.cache.spec import Selector, WatchSpec
from manager.cache.store import IndexFunction, Store
from manager.kube.decoding import json_object
from manager.telemetry.logs import get_logger
from manager.util import clock
from manager.util.rate_limit import Repeats, TokenBucket

# The informer counts each version of an omitted object once, and remembers at most so many objects.
LEFT_OUT = 1000

EventHandler = Callable[[CacheEvent], None]
"""Called in the event loop after each change of the cache; it must be quick and must not block."""


class Part(enum.Enum):
    """The operation that failed for a cached object; the value is its name in metrics."""

    PREDICATE = "predicate"
    HANDLER = "handler"
    INDEX = "index"
    DECODE = "decode"


class ObjectFilter(Protocol):
    """A filter of the objects that an informer selects; it may change at any time.

    Attributes:
        of_children: whether the filter accepts only children of certain owners.
    """

    of_children: bool

    def attach(self, store: Store, publish: Callable[[Sequence[CacheEvent]], None]) -> None:
        """Set the store to filter; `publish` gets an event for each object that the filter removes."""

    def of_watch(self, sink: Sink, reflector: Reflector) -> WatchFilter:
        """Return the filter for the watch of one namespace."""

    def is_complete(self) -> bool:
        """Return whether all objects that the filter accepts have been listed."""

    def holds_children_of(self, uid: str) -> bool:
        """Return whether the filter, with `of_children`, accepts the children of the owner with that UID."""

    def add_owner(self, owner: GroupVersionKind) -> None:
        """Also keep children of objects of the kind `owner`."""


class Informer:
    """An up-to-date copy of one kind's objects, which notifies subscribers of every change.

    All methods that do not wait are synchronous: their results are valid until the next await.

    Attributes:
        filter: selects the objects to keep; None for all.
        get: returns the record of an object, or None.
        list: returns the records that meet conditions; see `Store.select`.
        changed_at: the loop time of the last change, for the console.
        users, task: the number of callers that share the informer, and its task; the cache sets both.
        prepare: builds indexes; await it before the first `list` by labels or owner, which otherwise decodes
            all objects in one step.
    """

    def __init__(
        self,
        spec: WatchSpec,
        decoder: RecordDecoder,
        upstream: Upstream,
        *,
        object_filter: ObjectFilter | None = None,
    ) -> None:
        self.spec = spec
        self.filter = object_filter
        self._keeps_whole = spec.projection == "full"
        self._decoder = decoder
        failures = upstream.metrics.cache_failures
        self._failures = {part: failures.labels(spec.resource, part.value).inc for part in Part}
        self._failures_told: dict[tuple[Part, str], Repeats] = {}
        self._left_out_lines = TokenBucket(rate=1, burst=20)
        self._left_out: OrderedDict[ObjectKey, int] = OrderedDict()
        self._store = Store(
            selector=Selector.parse(spec.label_selector),
            filtered=bool(spec.field_selector),
            index_failed=lambda index, key, error: self.failed(Part.INDEX, key, error, index=index),
        )
        self.get: Callable[[ObjectKey], Record | None] = self._store.records.get
        self.list = self._store.select
        self.prepare = self._store.indexes.prepare
        self._handlers: list[EventHandler] = []
        self._sinks = [Sink(self._store, decoder, each, publish=self._publish) for each in spec.namespaces]
        self._reflectors = [Reflector(spec, sink, upstream) for sink in self._sinks]
        if object_filter is not None:
            for sink, reflector in zip(self._sinks, self._reflectors, strict=True):
                sink.filter = object_filter.of_watch(sink, reflector)
            object_filter.attach(self._store, self._publish)
        self._log = get_logger("cache.informer", resource=spec.resource)
        self.changed_at: float | None = None
        self.users = 0
        self.task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._store)

    async def run(self) -> None:
        """List and watch the objects until cancelled."""
        async with asyncio.TaskGroup() as watches:
            for sink, reflector in zip(self._sinks, self._reflectors, strict=True):
                name = f"watch {self.spec.resource} {sink.namespace}".rstrip()
                watches.create_task((sink.filter or reflector).run(), name=name)

    @property
    def holds_children(self) -> bool:
        """Return whether the informer keeps only children of certain owners."""
        return self.filter is not None and self.filter.of_children

    def drop_filter(self) -> None:
        """Keep all objects; allowed only before the informer runs."""
        self.filter = None
        for sink in self._sinks:
            sink.filter = None

    @property
    def cuts_others(self) -> bool:
        """Return whether the informer reduces some objects to their metadata (`RecordDecoder.owners`)."""
        return self._decoder.owners is not None

    def add_owner(self, owner: GroupVersionKind) -> None:
        """Keep children of objects of the kind `owner` as whole objects, too."""
        if self.filter is not None:
            self.filter.add_owner(owner)
        if self._decoder.owners is not None:
            self._decoder.owners.add((owner.group, owner.kind))

    def keep_whole(self) -> None:
        """Keep every object whole; raise RuntimeError if some objects may already be cut to metadata."""
        if self.cuts_others and len(self):
            raise RuntimeError(
                f"the cache has only metadata of {self.spec.plural} with other owners: declare reads"
            )
        self._decoder.owners = None

    def covers(self, namespace: str) -> bool:
        """Return whether the informer watches the objects of a namespace."""
        return self.spec.namespaces == ("",) or namespace in self.spec.namespaces

    def has_all_of(self, namespace: str) -> bool:
        """Return whether the informer has every existing object of the namespace."""
        return self.synced and self.selects_all_of(namespace)

    def selects_all_of(self, namespace: str) -> bool:
        """Return whether no selector or filter excludes objects of the namespace."""
        selective = self.spec.label_selector or self.spec.field_selector or self.filter
        return self.covers(namespace) and not selective

    @property
    def size(self) -> int:
        """Return the size of all cached JSON in bytes; each object needs about 500 bytes more."""
        return self._store.bytes

    @property
    def synced(self) -> bool:
        """Return whether the first list is complete or, with a filter, all accepted objects are listed."""
        if self.filter is not None:
            return self.filter.is_complete()
        return all(sink.synced.is_set() for sink in self._sinks)

    async def wait_synced(self) -> None:
        """Wait until the informer is synced; with a filter, return immediately."""
        if self.filter is None:
            for sink in self._sinks:
                await sink.synced.wait()

    @property
    def problem(self) -> str | None:
        """Return why the content may be incomplete or outdated, as text for people; None if it is current.

        If a kind is no longer served, or no longer allowed, the last known content is kept.
        """
        problems = dict.fromkeys(reflector.problem for reflector in self._reflectors if reflector.problem)
        if problems:
            return "; ".join(problems)
        return None if self.synced else f"{self.spec.resource}: waiting for the first list"

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Register an index for `list(index=(name, value))`; the same registration may be repeated.

        The function returns the values for a record and its metadata; it must not depend on anything else.
        Raises ValueError for a second function with the same name, and RuntimeError if the informer may
        already have reduced objects to their metadata.
        """
        self.keep_whole()
        self._store.indexes.add(name, function)

    def failed(self, part: Part, key: ObjectKey, error: Exception, **fields: object) -> None:
        """Count a failure of an operator's code for an object; log the first failure and some later ones."""
        self._failures[part]()
        repeats = self._failures_told.setdefault((part, type(error).__name__), Repeats())
        if (times := repeats.count()) is not None:
            fields |= {"object": str(key), "times": times, "exc_info": error}
            self._log.error("an operator's function failed for an object", function=part.value, **fields)

    def left_out(self, record: Record, error: Exception) -> None:
        """Count that lists omit an object due to `error`, once per version; log it within a rate limit."""
        if self._left_out.get(record.key) == record.version:
            return
        self._left_out[record.key] = record.version
        self._left_out.move_to_end(record.key)
        if len(self._left_out) > LEFT_OUT:
            self._left_out.popitem(last=False)
        self._failures[Part.DECODE]()
        if self._left_out_lines.try_acquire():
            self._log.error("cannot decode object: lists omit it", object=str(record.key), error=str(error))

    def subscribe(self, handler: EventHandler, *, replay: bool = True) -> Callable[[], None]:
        """Call `handler` with every later change; return a function that ends the subscription.

        With `replay`, the handler first gets the existing objects as initial ADDED events. The informer logs
        an exception of the handler, and still calls it with the next change.
        """
        self._handlers.append(handler)
        if replay:
            events = [CacheEvent(None, record, initial=True) for record in list(self._store)]
            self._publish(events, (handler,))

        def cancel() -> None:
            with suppress(ValueError):
                self._handlers.remove(handler)

        return cancel

    def _publish(self, events: Sequence[CacheEvent], handlers: Sequence[EventHandler] | None = None) -> None:
        if not events:
            return
        received = clock.monotonic()
        if handlers is None:
            self.changed_at, handlers = received, tuple(self._handlers)
        for event in events:
            event.received = received
            for handler in handlers:
                try:
                    handler(event)
                except Exception as error:  # noqa: BLE001 - the subscriber's code may raise anything
                    # The error must not stop the watch, nor keep the event from other subscribers.
                    self.failed(Part.HANDLER, event.key, error, change=event.type.value)

    def observe_write(self, raw: bytes, *, before: int | None = None) -> Record | None:
        """Update the cache with the server's answer to a write: the current object.

        `before` is the version that the write replaced, 0 for a create; None if it is not known for sure.
        Returns the record of the answer if this call has stored the whole object, else None.

        Raises ProtocolError for an invalid object, and for a new version of an object of another kind.
        """
        arrival = self._decoder.look(raw)
        key, uid, version, meta = arrival.key, arrival.uid, arrival.version, arrival.meta
        if before is not None:
            note_own_write(Change(uid, before, version))
        if not self.covers(key.namespace):
            return None
        if self.filter is not None and not self._takes(key, meta):
            return None
        if meta.deletion_timestamp is not None and is_removed(raw, meta):
            self._publish(self._store.observe_deletion(key, uid, version))
        elif self._store.is_news(key, uid, version):  # the watch may have been faster
            written, news = self._decoder.take(arrival)
            self._publish(self._store.observe_write(written, news))
            if self._keeps_whole and self.get(key) is written and not written.is_cut:
                return written
        return None

    def _takes(self, key: ObjectKey, meta: Meta) -> bool:
        return any(
            each.filter is None or each.filter.takes(meta)
            for each in self._sinks
            if each.namespace in {"", key.namespace}
        )

    def observe_delete(self, key: ObjectKey, uid: str | None, raw: bytes) -> None:
        """Update the cache with the answer to a delete: a Status if the object is gone, else the object.

        `uid` is the UID of the object, if the caller knows it. Raises ProtocolError for any other answer.
        """
        if not self.covers(key.namespace):
            return
        deleted, version = deleted_uid(raw), 0
        if deleted is None:
            record, meta = self._decoder(raw)
            if meta.deletion_timestamp is not None:
                self.observe_write(raw)
                return
            # For some kinds, the answer is the object at its removal.
            deleted, version = record.uid, record.version
        if gone := deleted or uid:
            self._publish(self._store.observe_deletion(key, gone, version))


def is_removed(raw: bytes, meta: Meta) -> bool:
    """Return whether a write let the server remove an object that was being deleted.

    Such a write removes the last finalizer or the grace period; the server removes the object in the same
    step.
    """
    if meta.deletion_timestamp is None or meta.finalizers or meta.deletion_grace_period_seconds:
        return False
    # Namespaces have their own finalizers in the spec.
    spec = json_object(raw, "an object").get("spec")
    return not (isinstance(spec, dict) and spec.get("finalizers"))


def deleted_uid(raw: bytes) -> str | None:
    """Return the UID in a Status, which means that the object is gone; "" if the Status has no UID.

    Returns None if the answer is the object. Raises ProtocolError for any other answer.
    """
    status = json_object(raw, "the answer to a delete")
    if status.get("kind") != "Status":
        return None
    details = status.get("details")
    return str(details.get("uid") or "") if isinstance(details, dict) else ""
