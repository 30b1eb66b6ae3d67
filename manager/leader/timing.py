"""How long a lease lasts, and how often it is renewed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from manager.duration import format_duration

__all__ = ["LeaseTiming"]

_LEASE = "--leader-elect-lease-duration"
_RENEW = "--leader-elect-renew-deadline"
_RETRY = "--leader-elect-retry-period"

_RETRY_JITTER = 1.2


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """The three durations of an election, in seconds.

    A leader that has not renewed for `renew_deadline` stops; the others wait `lease_duration` before they
    take over. The difference is the margin for clocks that run at different rates and for the last writes
    of the old leader to die: with 15 and 10, clocks may differ by a fifth in rate. Raises ValueError, which
    names the flag, when the three do not fit together.
    """

    lease_duration: float = 15.0
    """How long the others wait after the last change of the lease before they take it."""
    renew_deadline: float = 10.0
    """How long a leader goes on without a renewal that it knows succeeded."""
    retry_period: float = 2.0
    """Time between renewals, and between a standby's looks at the lease."""

    def __post_init__(self) -> None:
        flags = {_LEASE: self.lease_duration, _RENEW: self.renew_deadline, _RETRY: self.retry_period}
        for flag, value in flags.items():
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{flag} must be longer than zero, not {value:g}s")
        if self.lease_duration <= self.renew_deadline:
            raise ValueError(
                f"{_LEASE} ({format_duration(self.lease_duration)}) must be longer than "
                f"{_RENEW} ({format_duration(self.renew_deadline)}): "
                "the leader has to stop before the others take over"
            )
        if self.renew_deadline <= self.retry_period * _RETRY_JITTER:
            raise ValueError(
                f"{_RENEW} ({format_duration(self.renew_deadline)}) must be longer than {_RETRY_JITTER:g} "
                f"times {_RETRY} ({format_duration(self.retry_period)}): "
                "the leader needs time for more than one try"
            )

    @property
    def lease_seconds(self) -> int:
        """The lease duration as the record has it: whole seconds, rounded up, so that nobody waits less."""
        return math.ceil(self.lease_duration)

    @property
    def attempt_timeout(self) -> float:
        """Seconds for one request: the deadline leaves time for a second one, on a new connection."""
        return max(self.retry_period, self.renew_deadline / 2)
