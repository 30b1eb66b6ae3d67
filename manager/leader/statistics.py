"""How an election goes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LeaderStatistics"]


@dataclass(frozen=True, slots=True)
class LeaderStatistics:
    """A snapshot of one elector."""

    identity: str
    leading: bool
    holder: str
    """Who holds the lease, as last seen; empty when nobody does."""
    transitions: int
    """How often the lease changed hands, as its record says."""
    renewals: int
    """Renewals that this process knows succeeded, the first claim included."""
    failures: int
    """Requests for the lease that failed."""
    since_renewal: float | None
    """Seconds since the last renewal was sent; None when this process does not lead."""
