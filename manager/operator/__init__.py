"""Operators: each operator is one class with its declarations and its reconcile method."""

from __future__ import annotations

from manager.operator.context import LEFT_OVER, NAME_TAKEN, Blocked, Context
from manager.operator.declaration import Enqueue, Owns, Reads, Watch, WatchPods, daemon, every
from manager.operator.operator import AnyOperator, Operator, rights_of
from manager.operator.reconciler import add_controller
from manager.operator.steps import Steps

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
