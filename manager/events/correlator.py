"""Makes few Event objects out of many events, each with its object and a count."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Generic, Literal, TypeVar

from manager.api import Resource
from manager.util import clock
from manager.util.rate_limit import TokenBucket

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """The fields that `kubectl describe` needs to find the Events about an object.

    `of` makes it from a model; make it by hand only for an object without one.
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

    @property
    def subject(self) -> tuple[str, str, str, str, str]:
        """The part that is the same for all versions of the object."""
        return (self.api_version, self.kind, self.namespace, self.name, self.uid)

    def to_wire(self) -> dict[str, str]:
        """Return the JSON form of `involvedObject`."""
        fields = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
        }
        return {key: value for key, value in fields.items() if value}

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


# The limits of the API server.
MESSAGE_BYTES = 1024
REASON_BYTES = 128

_ELLIPSIS = "…"


def bounded(text: str, limit: int) -> str:
    """Return `text` as at most `limit` bytes of UTF-8, with an ellipsis where something was cut off."""
    if text.isascii() and len(text) <= limit:
        return text
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > limit:
        encoded = encoded[: limit - len(_ELLIPSIS.encode())]
        return encoded.decode("utf-8", "ignore") + _ELLIPSIS
    return encoded.decode("utf-8")


_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST = 253


class EventNames:
    """A source of unique Event names: the object's name, a dot, and the time in hex, as is usual."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._last = 0

    def next(self, reference: ObjectReference) -> str:
        """Return a name that was not given before."""
        # The clock tells microseconds; the rest is chance, so that two processes do not meet.
        nanoseconds = int(clock.now().timestamp() * 1_000_000) * 1_000 + self._rng.randrange(1_000)
        self._last = max(self._last + 1, nanoseconds)
        suffix = f".{self._last:x}"
        base = reference.name[: _LONGEST - len(suffix)].rstrip("-.")
        # Some kinds allow names that an Event may not have, such as the `system:node` of RBAC.
        return (base if _SUBDOMAIN.fullmatch(base) else reference.kind.lower()) + suffix


EventType = Literal["Normal", "Warning"]


@dataclass(slots=True, eq=False)
class Series:
    """A repeated event of one object: one Event object on the server."""

    reference: ObjectReference
    type: EventType
    reason: str
    name: str
    """The name of the Event object."""
    first: datetime
    last: datetime
    message: str = ""
    count: int = 0
    stored: bool = False
    """Whether the server has the Event object, as far as we know."""
    waiting: bool = False
    """Whether it waits to be sent; what happens meanwhile goes with it."""
    failures: int = 0
    """How often in a row the server has failed on it."""


class Recent(Generic[K, V]):
    """A cache of values by key; beyond `capacity`, it forgets the least recently used one.

    None is not a value.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get_or_add(self, key: K, create: Callable[[], V]) -> V:
        """Return the value of `key`, made by `create` when there is none."""
        values = self._values
        known = values.get(key)
        if known is not None:
            values.move_to_end(key)
            return known
        added = values[key] = create()
        if len(values) > self._capacity:
            values.popitem(last=False)
        return added


# The figures are those that every cluster knows from the components of Kubernetes.
REMEMBERED = 4096
"""How many series, groups of similar events and objects are kept in mind."""
SIMILAR = 10
"""From this many different messages on, events that are otherwise alike become one series."""
SIMILAR_WITHIN = 600.0
"""Seconds without a similar event after which counting messages begins anew."""
BURST = 25
"""How many events about one object may be sent in quick succession."""
RATE = 1 / 300
"""How many a second after that."""

_COMBINED = "(combined from similar events): "

_SimilarKey = tuple[tuple[str, str, str, str, str], EventType, str]


@dataclass(slots=True)
class _Similar:
    """Events about one object that differ in their message only."""

    messages: set[str] = field(default_factory=set)
    last: float = 0.0


class Correlator:
    """A finder of the series that an event belongs to.

    A repeated event counts up its series. When an object has ten different messages for one reason within
    ten minutes, the tenth and further ones are combined into one series. An object that causes more than 25
    events gets one through every five minutes; suppressed events still count in their series.
    """

    def __init__(self, rng: Random) -> None:
        self._names = EventNames(rng)
        self._series: Recent[tuple[_SimilarKey, str | None], Series] = Recent(REMEMBERED)
        self._similar: Recent[_SimilarKey, _Similar] = Recent(REMEMBERED)
        self._budgets: Recent[tuple[str, str, str, str, str], TokenBucket] = Recent(REMEMBERED)

    def observe(self, reference: ObjectReference, type: EventType, reason: str, message: str) -> Series:  # noqa: A002 - the field's name
        """Count the event in the series that it belongs to, and return that."""
        key = (reference.subject, type, reason)
        combined = self._is_one_of_many(key, message)
        now = clock.now()
        series = self._series.get_or_add(
            (key, None if combined else message),
            lambda: Series(
                reference=reference,
                type=type,
                reason=reason,
                name=self._names.next(reference),
                first=now,
                last=now,
            ),
        )
        series.count += 1
        series.message = bounded(_COMBINED + message, MESSAGE_BYTES) if combined else message
        series.last = now
        return series

    def renew(self, series: Series) -> None:
        """Continue the series in a new Event object."""
        series.name, series.stored = self._names.next(series.reference), False

    def within_budget(self, reference: ObjectReference) -> bool:
        """Return whether one more event about that object may be sent now; if so, count it as sent."""
        budget = self._budgets.get_or_add(reference.subject, lambda: TokenBucket(rate=RATE, burst=BURST))
        return budget.try_acquire()

    def _is_one_of_many(self, key: _SimilarKey, message: str) -> bool:
        now = clock.monotonic()
        similar = self._similar.get_or_add(key, _Similar)
        if now - similar.last > SIMILAR_WITHIN:
            similar.messages.clear()
        similar.last = now
        if message not in similar.messages:
            if len(similar.messages) >= SIMILAR - 1:
                return True
            similar.messages.add(message)
        return False
