"""Small versions of a real cluster's controllers, scheduler and nodes, which make workloads appear to run."""

from __future__ import annotations

from devcluster.controllers.controllers import Controllers
from devcluster.controllers.logs import PodLogs

__all__ = ["Controllers", "PodLogs"]
