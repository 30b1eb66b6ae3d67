"""Simulation of managers and a control plane in one process, in virtual time, with injected faults.

def test_operator_recovers_from_simulated_faults():
    assert_holds(GreetingOperator, seeds=range(50))
"""

from __future__ import annotations

from devcluster.storage.records import Change
from manager_tools.simulation.plan import NAMES, NAMESPACES, PLANTED
from manager_tools.simulation.replica import Replica
from manager_tools.simulation.scene import Sent
from manager_tools.simulation.seeds import assert_holds
from manager_tools.simulation.services import Handler
from manager_tools.simulation.world import Outside, World

__all__ = [
    "NAMES",
    "NAMESPACES",
    "PLANTED",
    "Change",
    "Handler",
    "Outside",
    "Replica",
    "Sent",
    "World",
    "assert_holds",
]
