"""Simplified versions of the real controllers, scheduler and kubelets, so that workloads appear to run."""

from __future__ import annotations

from devcluster.controllers.controllers import Controllers
from devcluster.controllers.logs import PodLogs

__all__ = ["Controllers", "PodLogs"]
