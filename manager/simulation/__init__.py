"""Managers and a control plane in one process and in virtual time, where anything may go wrong.

def test_it_holds_whatever_goes_wrong():
assert_holds(GreetingOperator, seeds=range(50))
"""

from __future__ import annotations

from manager.simulation.control_plane import Change
from manager.simulation.network import Sent
from manager.simulation.replica import Replica
from manager.simulation.seeds import assert_holds
from manager.simulation.services import Handler
from manager.simulation.workload import NAMES, NAMESPACES, PLANTED
from manager.simulation.world import Outside, World

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
