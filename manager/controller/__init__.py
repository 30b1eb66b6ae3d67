"""The controllers: sources, handlers, predicates, the queue and workers turn changes into reconciles.

`manager.operator` creates them from the declaration of an operator.
"""

from __future__ import annotations

from manager.controller.controller import Controller, ControllerState
from manager.controller.queue import KeyBackoff, QueueItem, WorkQueue
from manager.controller.reconciler import (
    ControllerOptions,
    Priority,
    Reconciler,
    Request,
    Result,
    TerminalError,
)
from manager.controller.source import (
    ChannelSource,
    Handler,
    KindSource,
    MapTo,
    Predicate,
    Source,
    TickerSource,
    all_of,
    annotation_changed,
    any_of,
    created_or_deleted,
    desired_state_changed,
    enqueue_mapped,
    enqueue_object,
    enqueue_owner,
    generation_changed,
    label_changed,
    not_,
    presence_changed,
    status_changed,
    termination_started,
)

__all__ = [
    "ChannelSource",
    "Controller",
    "ControllerOptions",
    "ControllerState",
    "Handler",
    "KeyBackoff",
    "KindSource",
    "MapTo",
    "Predicate",
    "Priority",
    "QueueItem",
    "Reconciler",
    "Request",
    "Result",
    "Source",
    "TerminalError",
    "TickerSource",
    "WorkQueue",
    "all_of",
    "annotation_changed",
    "any_of",
    "created_or_deleted",
    "desired_state_changed",
    "enqueue_mapped",
    "enqueue_object",
    "enqueue_owner",
    "generation_changed",
    "label_changed",
    "not_",
    "presence_changed",
    "status_changed",
    "termination_started",
]
