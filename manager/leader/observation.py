"""What a standby knows of the lease, and since when."""

from __future__ import annotations

import math

from manager.leader.lease import Lease
from manager.leader.pause import TIMER_ERROR

__all__ = ["Observation"]


class Observation:
    """The lease as last seen, and the local time at which its content was first seen so.

    A holder is taken for alive until its record has stayed the same for the lease duration, on our own
    monotonic clock: what the record says about time was written by another clock, and is not looked at. Only
    the content counts: a label set by somebody is no sign of life.
    """

    def __init__(self, *, identity: str, lease_duration: float) -> None:
        self._identity = identity
        self._lease_duration = lease_duration
        self._lease: Lease | None = None
        self._newest: int | None = None
        self._gone = False
        self._since = -math.inf
        self._current = False

    @property
    def lease(self) -> Lease | None:
        """The lease to build a claim on; None when the server has none."""
        return None if self._gone else self._lease

    @property
    def holder(self) -> str:
        """Who holds it, as last seen; empty when nobody does."""
        return self._lease.holder if self._lease is not None else ""

    @property
    def version(self) -> int | None:
        """The newest version seen; None when versions cannot be ordered."""
        return self._newest

    def saw(self, lease: Lease, *, now: float) -> None:
        """Note the lease as read or watched; an older version than the one known, come late, is ignored."""
        if self._is_stale(lease):
            return
        known = self._lease
        if known is None or (lease.uid, lease.spec) != (known.uid, known.spec):
            self._since = now
        self._lease = lease
        self._newest = lease.version
        self._gone = False
        self._current = True

    def saw_deletion(self, last: Lease) -> None:
        """Note that the lease, whose last state was `last`, was deleted."""
        if not self._is_stale(last):
            self.saw_none()

    def saw_none(self) -> None:
        """Note that the server has no such lease.

        A deletion is no release: whoever held it may still be at work, and will create it again.
        """
        self._gone = True
        self._current = True

    def history_was_rewound(self) -> None:
        """Note that versions started again from an older one, as after etcd was restored from a backup."""
        self._newest = None

    def doubt(self) -> None:
        """Claim no more on this knowledge; the next look at the lease renews it."""
        self._current = False

    def claimable(self, now: float) -> bool:
        """Whether to try to take the lease now."""
        return self._current and now >= self.claimable_at() - TIMER_ERROR

    def claimable_at(self) -> float:
        """The local time from which the lease may be taken unless it changes; infinity while in doubt."""
        if not self._current:
            return math.inf
        if self._lease is None or self._lease.holder in {"", self._identity}:
            return -math.inf
        return self._since + (self._lease.duration or self._lease_duration)

    def _is_stale(self, lease: Lease) -> bool:
        return self._newest is not None and lease.version is not None and lease.version < self._newest
