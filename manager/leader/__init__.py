"""Leader election: of several replicas that share a Lease, one works and the others are ready to."""

from __future__ import annotations

from manager.leader.elector import LeaderElector
from manager.leader.leadership import Leadership
from manager.leader.lease import LeadershipLost, LeaseTiming, new_identity

__all__ = [
    "LeaderElector",
    "Leadership",
    "LeadershipLost",
    "LeaseTiming",
    "new_identity",
]
