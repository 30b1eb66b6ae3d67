"""What makes workloads look alive: the controllers, the scheduler and the nodes of a real cluster, in small."""

from __future__ import annotations

from devcluster.controllers.controllers import Controllers

__all__ = ["Controllers"]
