"""Operators: one class for each, with its declarations and its reconcile method."""

from __future__ import annotations

from manager.operator.context import LEFT_OVER, NAME_TAKEN, Blocked, Context
from manager.operator.daemons import daemon
from manager.operator.declaration import Enqueue, Owns, Reads, Watch, WatchPods
from manager.operator.operator import AnyOperator, Operator
from manager.operator.reconciler import add_controller
from manager.operator.rights import rights_of
from manager.operator.steps import Steps
from manager.operator.timers import every

__all__ = [
    "LEFT_OVER",
    "NAME_TAKEN",
    "AnyOperator",
    "Blocked",
    "Context",
    "Enqueue",
    "Operator",
    "Owns",
    "Reads",
    "Steps",
    "Watch",
    "WatchPods",
    "add_controller",
    "daemon",
    "every",
    "rights_of",
]
