"""What makes workloads look alive: the controllers, scheduler and nodes of a real cluster, in small."""

from __future__ import annotations

from devcluster.controllers.controllers import Controllers
from devcluster.controllers.logs import PodLogs

__all__ = ["Controllers", "PodLogs"]
