"""Names for Event objects."""

from __future__ import annotations

import re
from random import Random

from manager import clock
from manager.events.reference import ObjectReference

__all__ = ["EventNames"]

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST = 253


class EventNames:
    """Gives each Event a name of its own: the object's name, a dot, and the time in hex, as is usual."""

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
