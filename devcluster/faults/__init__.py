"""Fault injection: failures that a client must survive, triggered by a test."""

from __future__ import annotations

from devcluster.faults.endpoint import with_fault_endpoint
from devcluster.faults.fault import Action, Fault, FaultControl, Match, with_faults

__all__ = ["Action", "Fault", "FaultControl", "Match", "with_fault_endpoint", "with_faults"]
