"""How long certificates last, and how long each step of a renewal waits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from manager.tls.certificate import Certificate
from manager.tls.issue import CLOCK_SKEW

_RENEWED_AFTER = 2 / 3


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Lifetimes of new authorities and certificates; each is replaced after two thirds of its lifetime.

    So an obstacle to the renewal (no leader, no API server, missing rights) may last for a third.
    """

    authority: timedelta = timedelta(days=365)
    serving: timedelta = timedelta(days=90)

    settle: timedelta = timedelta(seconds=15)
    """How long every bundle has to be seen with a new authority before a certificate of it is served. An API
    server hears of a changed configuration by a watch: in milliseconds, or seconds if it is very busy."""

    retire: timedelta = timedelta(hours=1)
    """How long an old authority stays trusted after the first certificate of the new one. Replicas have the
    new certificate within seconds, unless one cannot reach the API server that its callers come from."""

    def __post_init__(self) -> None:
        """Raise ValueError for durations with which a certificate would end before it can be replaced."""
        if self.serving > self.authority / 3:
            # A new authority exists for the last third of the old one's life. In that time it must renew
            # every certificate of the old one on schedule.
            raise ValueError("a serving certificate may live for a third of its authority's time at most")
        if self.retire <= self.settle:
            # For so long after a new certificate, an authority that is still trusted counts as one in use.
            raise ValueError("an old authority must be retired later than a new one takes to settle")
        if self.settle + self.retire >= self.authority / 3:
            raise ValueError("an authority must be replaced and retired within a third of its life")

    def is_due(self, certificate: Certificate, now: datetime) -> bool:
        """Return whether the certificate, possibly from another issuer, is due for replacement."""
        made = issued(certificate)
        return now >= made + (certificate.until - made) * _RENEWED_AFTER


def issued(certificate: Certificate) -> datetime:
    """Return when we issued the certificate; for another issuer's, the approximate time."""
    return certificate.since + CLOCK_SKEW
