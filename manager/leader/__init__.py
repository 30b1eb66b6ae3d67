"""Leader election: of several replicas that share a Lease, one works and the others are ready to."""

from __future__ import annotations

from manager.leader.elector import LeaderElector
from manager.leader.errors import LeadershipLost
from manager.leader.identity import new_identity
from manager.leader.leadership import Leadership
from manager.leader.statistics import LeaderStatistics
from manager.leader.timing import LeaseTiming

__all__ = [
    "LeaderElector",
    "LeaderStatistics",
    "Leadership",
    "LeadershipLost",
    "LeaseTiming",
    "new_identity",
]
