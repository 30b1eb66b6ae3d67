"""Makes few Event objects out of many events."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from random import Random
from typing import Generic, TypeVar

from manager import clock
from manager.events.series import MESSAGE_BYTES, EventNames, EventType, ObjectReference, Series, bounded
from manager.rate_limit import TokenBucket

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Remembers values by key; beyond `capacity`, forgets the one that was not asked for longest.

    None is no value.
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
    """Finds the series that an event belongs to.

    The same event again counts up its series. When an object has ten different messages for one reason within
    ten minutes, the tenth and further ones are combined into one series. An object that causes more than 25
    events gets one through every five minutes; what is filtered out still counts in its series.
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
        series.happened(bounded(_COMBINED + message, MESSAGE_BYTES) if combined else message, now)
        return series

    def renew(self, series: Series) -> None:
        """Have the series go on in a new Event object."""
        series.name, series.stored = self._names.next(series.reference), False

    def within_budget(self, reference: ObjectReference) -> bool:
        """Whether one more event about that object may be sent now; if so, it is counted as sent."""
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
