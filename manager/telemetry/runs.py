"""The record of each reconcile: logs, metrics, traces, `explain` and the console read it.

The controller creates a `ReconcileRecord` for each reconcile. Code that sends a request or records an Event
adds it to `current_record()`. A `History` stores finished records as bytes.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from manager.api import GroupVersionKind, ObjectKey, Resource
from manager.util.clock import monotonic

NO_ANSWER = 0
"""Replaces a status code if there was no complete answer."""

SPARED = -1
"""Replaces a status code if no request was sent, because it would have changed nothing."""

CALLED = -2
"""Replaces the status code of a call outside of the cluster, whose failure is in `error`."""

MOST_TRIGGERS, MOST_REQUESTS, MOST_EVENTS = 16, 32, 16
"""The number of triggers, requests and Events that a record keeps. Further ones are only counted."""

LONGEST_TEXT = 300
"""The number of characters that are kept of an error or an Event."""

_TEXTS = {
    "event": "{kind} {change}",
    "found": "{kind} found",
    "freed": "{kind} {name}, whose name the object needs, {change}",
    "probe": "a test of {name}",
    "person": "requested by {name}",
    "answered": "{name} has answered",
    "asked": "requested by the program",
    "back-off": "retry after the back-off",
    "requeue": "requeue by its own result",
}


class Trigger(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The cause of a reconcile.

    Attributes:
        why: `event` (of a watch), `found` (the object existed at the start of the controller), `freed` (a
            child's name may be free), `requeue` (its own Result), `back-off`, `probe` (a test whether the
            dependency `name` answers), `answered` (the dependency `name` has answered), `resync`, `timer`,
            `asked` (by the operator's code), `person` (requested by the user `name`).
        at: the loop time; for a watch event, its arrival.
        change: for an event: ADDED, MODIFIED or DELETED.
        source: for an event: the relation of the object: `for` (the own kind), `owns` or `watches`.
        old: the resourceVersion before; 0 if there was none.
        new: the resourceVersion after; 0 if there is none.
    """

    why: str
    at: float = 0.0
    change: str = ""
    source: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    old: int = 0
    new: int = 0

    @property
    def text(self) -> str:
        """Return a short text about the trigger."""
        if (text := _TEXTS.get(self.why)) is None:
            return self.why
        return text.format(kind=self.kind, change=self.change.lower(), name=self.name)

    def in_unix_time(self, offset: float) -> Trigger:
        """Return a copy with `offset` added to its time, if it has one."""
        return replace(self, at=self.at and self.at + offset)


class RequestRecord(msgspec.Struct, array_like=True, gc=False):
    """A request to the API server, a request that was not needed, or a call outside of the cluster.

    Attributes:
        verb: a method in lower case, `apply`, `connect` for a WebSocket, or `call` for a call outside of the
            cluster. For a dry run, `, dry run` is appended.
        path: the path; for a call, `service/method`.
        at: the loop time of the beginning.
        name: the name of a created object, which the path lacks.
        code: the status of the last answer, `NO_ANSWER`, `SPARED`, or `CALLED`.
        attempts: the number of attempts.
        seconds: the duration of the attempts, without the pauses in between.
        error: a word for the failure of a call.
    """

    verb: str
    path: str
    at: float
    name: str = ""
    code: int = NO_ANSWER
    attempts: int = 0
    seconds: float = 0.0
    error: str = ""


def resource_and_name(path: str) -> tuple[str, str]:
    """Return the resource (with its subresource) and the object's name in an API path."""
    parts = path.strip("/").split("/")
    rest = parts[2 if parts[0] == "api" else 3 :]
    if rest[:1] == ["namespaces"] and len(rest) > 2:  # noqa: PLR2004 - followed by a name
        rest = rest[2:]
    return "/".join(rest[:1] + rest[2:]), "".join(rest[1:2])


class EventRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An Event that the reconcile recorded, with its loop time."""

    type: str
    reason: str
    message: str
    at: float


class ReconcileRecord(msgspec.Struct, array_like=True, gc=False):
    """A reconcile. Times are loop times; reports have copies `in_unix_time`.

    Attributes:
        id: 64 bits in hexadecimal, as in the log and in traces.
        waited: seconds that the object waited for a worker.
        attempt: the number of back-offs before it.
        triggers: the first triggers since the object was enqueued, and the last change of the object itself.
        triggered: the number of all triggers.
        outcome: `success`, `requeue`, `requeue_after`, `error` or `cancelled`; empty while it runs.
        requested: the number of all requests to the API server, without those that were not needed.
        called: the number of calls outside of the cluster.
        recorded: the number of all Events.
        failure: the class of failure: `terminal`, `race`, `fault`, `unexpected` or `panic`.
        next_in: seconds from its end to the next reconcile without a change, if one is planned.
        skipped: whether the next reconcile was omitted, because only this one's own writes had triggered it.
        gone: whether the last event of the object was its deletion; None without an event of the object.
        awaits: the event for which the object waits, in its operator's words.
    """

    controller: str
    namespace: str
    name: str
    id: str
    started: float
    waited: float
    attempt: int
    priority: int
    triggers: tuple[Trigger, ...]
    triggered: int
    outcome: str = ""
    seconds: float = 0.0
    requests: list[RequestRecord] = []
    requested: int = 0
    writes: int = 0
    spared: int = 0
    called: int = 0
    events: list[EventRecord] = []
    recorded: int = 0
    error: str = ""
    error_type: str = ""
    failure: str = ""
    timed_out: bool = False
    next_in: float | None = None
    skipped: bool = False
    gone: bool | None = None
    awaits: str = ""

    @property
    def key(self) -> ObjectKey:
        """Return the key of the object."""
        return ObjectKey(self.namespace, self.name)

    @property
    def why(self) -> str:
        """Return a short text about the triggers."""
        texts = list(dict.fromkeys(trigger.text for trigger in self.triggers))
        return ", ".join(texts[:3]) + (", ..." if len(texts) > 3 else "")  # noqa: PLR2004 - a summary

    def shows_gone(self, kind: str) -> bool | None:
        """Return whether the last event of the object itself is its deletion; None without such an event."""
        of_itself = (each for each in reversed(self.triggers) if each.source == "for" and each.kind == kind)
        return next((each.change == "DELETED" for each in of_itself), None)

    def begin_request(self, verb: str, path: str, name: str) -> RequestRecord:
        """Add a request that begins; the caller adds its attempts to the returned record."""
        sent = RequestRecord(verb, path, monotonic(), name)
        self.requested += 1
        self.writes += verb != "get"
        if len(self.requests) < MOST_REQUESTS:
            self.requests.append(sent)
        return sent

    def add_spared(self, verb: str, kind: type[Resource], key: ObjectKey, subresource: str = "") -> None:
        """Add a request that was not sent, because it would have changed nothing."""
        self.spared += 1
        if len(self.requests) < MOST_REQUESTS:
            within = f"/namespaces/{key.namespace}" if key.namespace else ""
            path = f"{_group_path(kind.gvk)}{within}/{kind.plural}/{key.name}"
            path = f"{path}/{subresource}" if subresource else path
            self.requests.append(RequestRecord(verb, path, monotonic(), code=SPARED))

    def add_event(self, type: str, reason: str, message: str) -> None:  # noqa: A002 - the field's name
        """Add an Event."""
        self.recorded += 1
        if self.recorded <= MOST_EVENTS:
            self.events.append(EventRecord(type, reason, message[:LONGEST_TEXT], monotonic()))

    def in_unix_time(self, offset: float) -> ReconcileRecord:
        """Return a copy with `offset` (Unix time minus loop time) added to all times."""
        return replace(
            self,
            started=self.started + offset,
            seconds=self.seconds if self.outcome else monotonic() - self.started,
            triggers=tuple(each.in_unix_time(offset) for each in self.triggers),
            requests=[replace(each, at=each.at + offset) for each in self.requests],
            events=[replace(each, at=each.at + offset) for each in self.events],
        )


@cache
def _group_path(gvk: GroupVersionKind) -> str:
    return f"/apis/{gvk.group}/{gvk.version}" if gvk.group else f"/api/{gvk.version}"


_current: ContextVar[ReconcileRecord | None] = ContextVar("current_record", default=None)


def current_record() -> ReconcileRecord | None:
    """Return the record of the calling task's reconcile, until the reconcile ends."""
    record = _current.get()
    return None if record is None or record.outcome else record


def called(what: str, seconds: float, error: str = "") -> None:
    """Add a call outside of the cluster, which took `seconds`, to the current reconcile's record, if any.

    `what` is `service/method`, the same for each object; `error` is a word for the failure, or empty.
    """
    if (record := current_record()) is not None:
        record.called += 1
        if len(record.requests) < MOST_REQUESTS:
            at, text = monotonic() - seconds, error[:LONGEST_TEXT]
            call = RequestRecord("call", what, at, code=CALLED, attempts=1, seconds=seconds, error=text)
            record.requests.append(call)


enter_record = _current.set
"""Adds the calling task, and the tasks that it starts, to a reconcile; returns a token."""

leave_record = _current.reset
"""Undoes the `enter_record` that returned the token."""


BUDGET = 8 * 1024 * 1024
"""Bytes of memory for the records of a process."""

KEPT_OF_AN_OBJECT = 20
"""The number of records of each object that are kept, if there is room."""

GONE_KEPT = 3600.0
"""Seconds for which the records of a deleted object are kept."""

_SLACK = 64
"""The number of dead entries up to which nothing is rebuilt."""

_OF_A_RECORD, _OF_AN_OBJECT, _OF_A_GONE_OBJECT = 82, 322, 190
"""Measured bytes that a record and an object need besides the encoded records and the name, and that a gone
object needs in addition."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ReconcileRecord).decode


class _Entry(msgspec.Struct, gc=False, eq=False):
    """An encoded record; the bytes are empty after the record was dropped."""

    key: ObjectKey
    encoded: bytes


_NO_KEY = ObjectKey("", "")


def _size_of(key: ObjectKey) -> int:
    return _OF_AN_OBJECT + len(key.namespace) + len(key.name)


class ControllerHistory:
    """The records of one controller: by object, and in the order of their ends."""

    def __init__(self, controller: str, history: History) -> None:
        self.controller = controller
        self._history = history
        self._objects: dict[ObjectKey, tuple[_Entry, ...]] = {}
        self._order: deque[_Entry] = deque()
        self._gone: OrderedDict[ObjectKey, float] = OrderedDict()
        self._living = 0
        self.bytes = 0
        """Memory that the records take."""

    def __len__(self) -> int:
        return self._living

    def add(self, record: ReconcileRecord) -> None:
        """Store the record of a finished reconcile; older ones are dropped to make room."""
        key = record.key
        if entries := self._objects.get(key, ()):
            key = entries[0].key  # share one key object in memory
        entry = _Entry(key, _encode(record))
        if len(entries) >= KEPT_OF_AN_OBJECT:
            self._drop(entries[0])
            entries = entries[1:]
        self._objects[key] = (*entries, entry)
        self._order.append(entry)
        self._living += 1
        self._grow(len(entry.encoded) + _OF_A_RECORD + (0 if entries else _size_of(key)))
        now = record.started + record.seconds
        if record.gone is False:
            self._unmark_gone(key)
        elif record.gone and key not in self._gone:
            self._gone[key] = now
            self._grow(_OF_A_GONE_OBJECT)
        if self._gone:
            self._forget_gone(now)
        if len(self._order) > 2 * self._living + _SLACK:
            self._order = deque(each for each in self._order if each.encoded)
        self._history.make_room()

    def of(self, key: ObjectKey) -> list[ReconcileRecord]:
        """Return the records of an object, oldest first."""
        return [_decode(each.encoded) for each in self._objects.get(key, ())]

    def last(self, key: ObjectKey) -> ReconcileRecord | None:
        """Return the last record of an object; None without one."""
        entries = self._objects.get(key)
        return None if entries is None else _decode(entries[-1].encoded)

    def latest(self) -> Iterator[ReconcileRecord]:
        """Yield all records, latest first. The iterator is invalid after a record was added."""
        return (_decode(each.encoded) for each in reversed(self._order) if each.encoded)

    def drop_oldest(self) -> None:
        """Drop the oldest record."""
        while not (oldest := self._order.popleft()).encoded:
            pass
        self._drop(oldest)

    def _drop(self, first: _Entry) -> None:
        key, size = first.key, len(first.encoded)
        # The order may keep the entry for long, and the name is long.
        first.key, first.encoded = _NO_KEY, b""
        self._living -= 1
        self._grow(-size - _OF_A_RECORD)
        if rest := self._objects[key][1:]:
            self._objects[key] = rest
            return
        del self._objects[key]
        self._grow(-_size_of(key))
        self._unmark_gone(key)

    def _unmark_gone(self, key: ObjectKey) -> None:
        if self._gone.pop(key, None) is not None:
            self._grow(-_OF_A_GONE_OBJECT)

    def _forget_gone(self, now: float) -> None:
        while self._gone:
            key, since = next(iter(self._gone.items()))
            if since > now - GONE_KEPT:
                return
            for entry in self._objects[key]:
                self._drop(entry)

    def _grow(self, size: int) -> None:
        self.bytes += size
        self._history.bytes += size


class History:
    """The last records of all controllers of a process, within a limit in bytes.

    Beyond the limit, the controller with the most bytes drops its oldest record.
    """

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = budget
        self._controllers: dict[str, ControllerHistory] = {}
        self.bytes = 0
        """Memory that the records take."""

    def of(self, controller: str) -> ControllerHistory:
        """Return the records of a controller."""
        found = self._controllers.get(controller)
        if found is None:
            found = self._controllers[controller] = ControllerHistory(controller, self)
        return found

    def make_room(self) -> None:
        """Drop old records until the rest is within the limit."""
        while self.bytes > self._budget:
            max(self._controllers.values(), key=attrgetter("bytes")).drop_oldest()
