"""Kubernetes Events, which users see at the end of `kubectl describe`.

`EventRecorder` combines many events into few Event objects, and lets other writes go first.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from random import Random
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import quote

import orjson
from pydantic.alias_generators import to_camel

from manager.api import Resource
from manager.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    ServerTimeout,
    ServiceUnavailable,
    TooLarge,
    TooManyRequests,
    TransportError,
)
from manager.kube.transport import Transport
from manager.telemetry.logs import get_logger
from manager.telemetry.metrics import Metrics
from manager.telemetry.runs import current_record
from manager.util import clock
from manager.util.backoff import ExponentialDelay
from manager.util.rate_limit import Repeats, TokenBucket

EventType = Literal["Normal", "Warning"]


class ObjectReference(NamedTuple):
    """The fields by which `kubectl describe` finds the Events about an object.

    `of` creates it from a model; create it yourself only for an object without a model.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""

    @classmethod
    def of(cls, obj: Resource) -> ObjectReference:
        """Return the reference to an object as it was read."""
        meta = obj.metadata
        return cls(obj.api_version, obj.kind, meta.namespace, meta.name, meta.uid, meta.resource_version)

    def to_wire(self) -> dict[str, str]:
        """Return the JSON form of `involvedObject`."""
        wire = dict(zip(_REFERENCE, self, strict=True))
        return wire if all(self) else {name: value for name, value in wire.items() if value}

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


_REFERENCE = tuple(map(to_camel, ObjectReference._fields))
"""The JSON names of a reference's fields."""


# The limits of the API server.
MESSAGE_BYTES = 1024
REASON_BYTES = 128

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST = 253


def bounded(text: str, limit: int) -> str:
    """Return `text` cut to at most `limit` bytes of UTF-8, with an ellipsis for the removed part."""
    if len(text) <= limit and text.isascii():
        return text
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= limit:
        return encoded.decode()
    return encoded[: limit - len("…".encode())].decode("utf-8", "ignore") + "…"


@dataclass(slots=True, eq=False)
class Series:
    """A repeated event of one object: one Event object on the server.

    Attributes:
        name: the name of the Event object.
        stored: whether the server has the Event object, as far as we know.
        waiting: whether it waits to be sent; repetitions until then are sent with it.
        failures: the number of consecutive server errors for this series.
    """

    reference: ObjectReference
    type: EventType
    reason: str
    name: str
    first: datetime
    last: datetime
    message: str = ""
    count: int = 0
    stored: bool = False
    waiting: bool = False
    failures: int = 0


# The same numbers as in the components of Kubernetes.
REMEMBERED = 4096
"""The number of series, of groups of similar events and of objects that are remembered."""
SIMILAR = 10
"""From this number of different messages on, similar events become one series."""
SIMILAR_WITHIN = 600.0
"""Seconds without a similar event after which the counting of messages restarts."""
BURST = 25
"""The number of events about one object that may be sent in quick succession."""
RATE = 1 / 300
"""The number of further events per second."""

_COMBINED = "(combined from similar events): "

_Subject = tuple[str, ...]
"""A reference without the version, which stands for all versions of an object."""

_SimilarKey = tuple[_Subject, EventType, str]


@dataclass(slots=True)
class _Similar:
    """Events about one object that differ only in their message."""

    messages: set[str] = field(default_factory=set)
    last: float = 0.0


class Correlator:
    """A finder of the series that an event belongs to.

    A repeated event increases the count of its series. If an object has ten different messages for one reason
    without a pause of ten minutes, the tenth and later ones are combined into one series. After 25 events, an
    object may send one every five minutes; suppressed events are still counted in their series.
    """

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._last_name = 0
        self._series_of = lru_cache(REMEMBERED)(self._begin)
        self._similar = lru_cache(REMEMBERED)(lambda _key: _Similar())
        self._budget_of = lru_cache(REMEMBERED)(lambda _subject: TokenBucket(rate=RATE, burst=BURST))

    def observe(
        self,
        reference: ObjectReference,
        type: EventType,  # noqa: A002 - the field's name
        reason: str,
        message: str,
    ) -> tuple[Series, Outcome | None]:
        """Count the event in its series; return the series, and the outcome if nothing has to be sent."""
        subject: _Subject = reference[:-1]
        similar = (subject, type, reason)
        combined = self._is_one_of_many(similar, message)
        series = self._series_of(similar, None if combined else message)
        if series.count:
            series.last = clock.now()
        else:
            series.reference = reference
        series.count += 1
        series.message = bounded(_COMBINED + message, MESSAGE_BYTES) if combined else message
        if series.waiting:
            return series, "merged"
        is_within_budget = self._budget_of(subject).try_acquire()
        return series, None if is_within_budget else "filtered"

    def _begin(self, similar: _SimilarKey, _message: str | None) -> Series:
        (subject, sort, reason), now = similar, clock.now()
        reference = ObjectReference(*subject)
        return Series(reference, sort, reason, self.new_name(reference, now), first=now, last=now)

    def renew(self, series: Series) -> None:
        """Continue the series in a new Event object."""
        series.name, series.stored = self.new_name(series.reference, clock.now()), False

    def new_name(self, reference: ObjectReference, now: datetime) -> str:
        """Return a new name for an Event in the usual form: the object's name, a dot, and the time in hex."""
        # The clock has microseconds; the remaining digits are random, so that two processes do not collide.
        nanoseconds = int(now.timestamp() * 1_000_000) * 1_000 + self._rng.randrange(1_000)
        self._last_name = max(self._last_name + 1, nanoseconds)
        suffix = f".{self._last_name:x}"
        base = reference.name[: _LONGEST - len(suffix)].rstrip("-.")
        # Some kinds allow names that are invalid for an Event, such as the `system:node` of RBAC.
        return (base if _SUBDOMAIN.fullmatch(base) else reference.kind.lower()) + suffix

    def _is_one_of_many(self, key: _SimilarKey, message: str) -> bool:
        now, similar = clock.monotonic(), self._similar(key)
        if now - similar.last > SIMILAR_WITHIN:
            similar.messages.clear()
        similar.last = now
        if message not in similar.messages and len(similar.messages) >= SIMILAR - 1:
            return True
        similar.messages.add(message)
        return False


Outcome = Literal[
    "created",  # sent, as a new Event object
    "updated",  # sent, as a higher count of an Event object
    "merged",  # sent together with an earlier occurrence that still waits
    "filtered",  # too many about the same object; counted when another one is sent
    "overflow",  # dropped for newer ones, because too many were waiting
    "refused",  # refused by the server
    "failed",  # failed several times because of the server or the network
    "unsent",  # still waiting at the end of the process
    "invalid",  # not a valid event
]


_log = get_logger("events")

# An Event is sent when no other write has been in flight for this long (longer than the pause of a worker
# between two writes) ...
_QUIET = 0.02
# ... or after this long, so that a process that always writes still reports its events.
_PATIENCE = 1.0
# While other writes are in flight, check again after this long. Only while there are Events to send.
_LOOK = 0.05

_ATTEMPTS = 5
"""The number of attempts for an Event while no server answers; then the next one is tried."""

_ATTEMPTS_ASIDE = 8
"""The number of attempts, in 2 to 3 minutes, for an Event on which the server fails; others go first."""

SENT_RATE, SENT_BURST = 30.0, 50
"""The average number of Events per second, and how many more may be sent after a quiet time."""

CAPACITY = 4096
"""The number of Events that may wait, about a kilobyte each."""

_DEADLINE = 10.0
"""Seconds for one request: waiting longer for an Event is not worthwhile."""

_TIMES = orjson.OPT_OMIT_MICROSECONDS | orjson.OPT_UTC_Z
"""The format of times: `2026-11-21T08:31:02Z`."""

_DEFAULT_NAMESPACE = "default"
"""The namespace for Events of objects without one; the server requires a namespace."""

_UNREACHED = (TransportError, ServiceUnavailable, ServerTimeout, TooManyRequests)
"""Failures that would concern every Event."""

_SPOILT = (BadRequest, Conflict, Invalid, TooLarge)
"""Permanent errors for the change of an Event: another client has made the Event unchangeable."""


class EventRecorder:
    """A recorder of Events with low priority: `event` never waits and never fails, and other writes go first.

    It counts repetitions in one Event object, combines similar events, and limits the events of each object
    (`Correlator`). `run` sends one Event at a time, at a limited rate, waiting up to a second for a pause
    of other writes. If too many wait, the namespace with the most loses its oldest one. An Event that causes
    a server error waits separately, and is dropped first. If other clients have filled an Event so that it
    cannot change any more, a new Event replaces it. `operator_manager_events_total` counts the outcomes.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        component: str,
        instance: str,
        metrics: Metrics,
        rng: Random,
    ) -> None:
        """Create a recorder; nothing is sent before `run`.

        `component` is the reporting program, the same for all replicas, and `instance` the replica.
        """
        self._transport = transport
        self._component = bounded(component, REASON_BYTES)
        self._instance = bounded(instance, REASON_BYTES)
        # All counters exist from the start, at zero.
        self._counters = {outcome: metrics.events_total.labels(outcome) for outcome in get_args(Outcome)}
        self._correlator = Correlator(rng)
        self._budget = TokenBucket(rate=SENT_RATE, burst=SENT_BURST)
        self._backlog: OrderedDict[str, deque[Series]] = OrderedDict()
        """The waiting series by namespace. Namespaces take turns, so a flood of Events delays only its
        own."""
        self._waiting = 0
        """The number of series in the backlog."""
        self._aside: dict[Series, asyncio.TimerHandle] = {}
        """The series that have caused a server error, until they are put back."""
        self._delay = ExponentialDelay(base=1.0, cap=10.0, jitter=0.5, rng=rng)
        self._delay_aside = ExponentialDelay(base=1.0, cap=100.0, jitter=0.5, rng=rng)
        self._filled = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._hurried = False
        self._troubles: defaultdict[type[KubeError], Repeats] = defaultdict(Repeats)

    def event(self, obj: Resource | ObjectReference, type: EventType, reason: str, message: str) -> None:  # noqa: A002 - the field's name
        """Record an event about an object.

        `reason` is one word in CamelCase, for programs; `message` is a sentence for people, cut to 1024
        bytes. A message must not contain a secret: all users with the right to read Events can read it.
        """
        try:
            reason, message = bounded(reason, REASON_BYTES), bounded(message, MESSAGE_BYTES)
            if (run := current_record()) is not None:
                run.add_event(type, reason, message)
            reference = obj if isinstance(obj, ObjectReference) else ObjectReference.of(obj)
            series, ended = self._correlator.observe(reference, type, reason, message)
            if ended is not None:
                self._count(ended)
            else:
                series.waiting = True
                self._append(series)
                if self._waiting + len(self._aside) > CAPACITY:
                    if self._aside:
                        self._give_up(next(iter(self._aside)))
                    else:
                        self._take_from(max(self._backlog, key=lambda each: len(self._backlog[each])))
                    self._count("overflow")
        except Exception as error:  # noqa: BLE001 - the caller must not fail because of an Event
            self._count("invalid")
            _log.warning("cannot record an event", reason=reason, error=error.__class__.__name__)

    async def run(self) -> None:
        """Send Events until cancelled; Events that are still unsent are then lost."""
        try:
            while True:
                await self._filled.wait()
                await self._await_turn()
                await self._send(self._take_from(next(iter(self._backlog))))
                if not self._backlog:
                    self._empty.set()
        finally:
            self._count("unsent", self._waiting + len(self._aside))
            for timer in self._aside.values():
                timer.cancel()

    async def flush(self, timeout: float) -> bool:
        """Make `run` send the waiting Events at once; return whether it did so within `timeout` seconds.

        Events that have caused a server error get one more attempt.
        """
        self._hurried = True
        for series in tuple(self._aside):
            self._put_back(series)
        try:
            async with asyncio.timeout(timeout):
                await self._empty.wait()
        except TimeoutError:
            _log.info("lost Events: the manager stopped before it sent them", unsent=self._waiting)
            return False
        finally:
            self._hurried = False
        return True

    def _count(self, outcome: Outcome, number: int = 1) -> None:
        self._counters[outcome].inc(number)

    def _append(self, series: Series) -> None:
        if (line := self._backlog.get(series.reference.namespace)) is None:
            line = self._backlog[series.reference.namespace] = deque()
        line.append(series)
        self._waiting += 1
        self._empty.clear()
        self._filled.set()

    def _put_aside(self, series: Series) -> None:
        """Retry a series after a delay, with a lower priority than others; drop it after many failures."""
        if series.waiting:
            return  # the event has occurred again meanwhile
        series.failures += 1
        if series.failures >= _ATTEMPTS_ASIDE:
            series.failures = 0
            self._count("failed")
            return
        series.waiting = True
        delay = self._delay_aside(series.failures - 1)
        self._aside[series] = asyncio.get_running_loop().call_later(delay, self._put_back, series)

    def _put_back(self, series: Series) -> None:
        self._aside.pop(series).cancel()
        self._append(series)

    def _give_up(self, series: Series) -> None:
        self._aside.pop(series).cancel()
        series.waiting, series.failures = False, 0

    def _take_from(self, namespace: str) -> Series:
        """Remove and return the oldest series of a namespace; later repetitions are sent separately."""
        line = self._backlog.pop(namespace)
        series = line.popleft()
        series.waiting = False
        self._waiting -= 1
        if line:
            self._backlog[namespace] = line  # after all other namespaces
        elif not self._backlog:
            self._filled.clear()
        return series

    async def _await_turn(self) -> None:
        started = clock.monotonic()
        quiet_since = math.inf
        while not self._hurried:
            now = clock.monotonic()
            quiet_since = math.inf if self._transport.writes_in_flight else min(quiet_since, now)
            turn = now - quiet_since >= _QUIET or now - started >= _PATIENCE
            if turn and self._budget.try_acquire():
                return
            # Without a token in the bucket, wait until there is one.
            await asyncio.sleep(_LOOK if quiet_since == math.inf else max(_QUIET, self._budget.shortage()))

    async def _send(self, series: Series) -> None:
        try:
            outcome = await self._attempt(series)
            for failures in range(_ATTEMPTS - 1):
                if outcome != "failed":
                    break
                await asyncio.sleep(self._delay(failures))
                outcome = await self._attempt(series)
        except asyncio.CancelledError:
            self._count("unsent")
            raise
        if outcome is not None:
            self._count(outcome)

    async def _attempt(self, series: Series) -> Outcome | None:
        """Send an Event; return its outcome: `failed` if no server is available, None after `_put_aside`."""
        try:
            created = await self._write(series)
        except KubeError as error:
            spoilt = isinstance(error, _SPOILT)
            is_fault = isinstance(error, ServerError) and not isinstance(error, _UNREACHED)
            # etcd reports a too large object like any other error, so only a second error replaces the Event.
            if series.stored and (spoilt or (is_fault and series.failures)):
                self._correlator.renew(series)
                return await self._attempt(series)
            if _is_namespace_gone(error):
                self._drop_all_in(series.reference.namespace)
                return "refused"
            # Log once, not per Event, without the Event's message and without an error that quotes it.
            if (times := self._troubles[type(error)].count()) is not None:
                told = type(error).__name__ if isinstance(error, BadRequest | Invalid) else str(error)
                about = str(series.reference)
                _log.warning("cannot send events", error=told, about=about, reason=series.reason, times=times)
            if is_fault:
                self._put_aside(series)
                return None
            # Refused also if the right to write Events is missing, or if this process may no longer write.
            return "failed" if isinstance(error, _UNREACHED) else "refused"
        series.failures = 0
        return "created" if created else "updated"

    def _drop_all_in(self, namespace: str) -> None:
        """Drop all waiting Events of a namespace that is gone, because they would delay all others."""
        line = self._backlog.pop(namespace, ())
        aside = [each for each in self._aside if each.reference.namespace == namespace]
        self._count("refused", len(line) + len(aside))
        self._waiting -= len(line)
        for each in line:
            each.waiting = False
        for each in aside:
            self._give_up(each)
        if not self._backlog:
            self._filled.clear()

    async def _write(self, series: Series) -> bool:
        """Write the series to the server; return whether that created the Event."""
        if series.stored:
            try:
                await self._patch(series)
            except NotFound:
                series.stored = False  # the server deletes Events, after an hour by default
            else:
                return False
        path, body = _events_path(_namespace(series)), orjson.dumps(self._event(series), option=_TIMES)
        try:
            await self._transport.request("POST", path, body=body, deadline=_DEADLINE)
        except AlreadyExists:
            # Created by an earlier attempt whose answer was lost.
            await self._patch(series)
        series.stored = True
        return True

    async def _patch(self, series: Series) -> None:
        await self._transport.request(
            "PATCH",
            f"{_events_path(_namespace(series))}/{quote(series.name, safe='')}",
            body=orjson.dumps(_changing(series), option=_TIMES),
            content_type="application/merge-patch+json",
            deadline=_DEADLINE,
        )

    def _event(self, series: Series) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": series.name, "namespace": _namespace(series)},
            "involvedObject": series.reference.to_wire(),
            "type": series.type,
            "reason": series.reason,
            "firstTimestamp": series.first,
            **_changing(series),
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }


def _changing(series: Series) -> dict[str, Any]:
    return {"count": series.count, "lastTimestamp": series.last, "message": series.message}


def _is_namespace_gone(error: KubeError) -> bool:
    if isinstance(error, NotFound):
        return error.details.get("kind") == "namespaces"
    return isinstance(error, ApiError) and error.is_namespace_terminating


def _namespace(series: Series) -> str:
    return series.reference.namespace or _DEFAULT_NAMESPACE


@lru_cache(REMEMBERED)
def _events_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/events"
