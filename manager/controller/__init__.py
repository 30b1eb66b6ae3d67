"""The machinery that turns changes into reconciles: sources, handlers, predicates, the queue and workers.

`manager.operator` builds it from the declaration of an operator.
"""

from __future__ import annotations

from manager.controller.controller import Controller, ControllerState
from manager.controller.options import ControllerOptions, RateLimiter
from manager.controller.predicate import (
    Predicate,
    all_of,
    annotation_changed,
    any_of,
    created,
    created_or_deleted,
    deleted,
    desired_state_changed,
    finalizer_changed,
    generation_changed,
    label_changed,
    not_,
    presence_changed,
    resource_version_changed,
    status_changed,
    termination_started,
)
from manager.controller.queue import KeyBackoff, QueueItem, RetryBackoff, WorkQueue
from manager.controller.reconciler import Priority, Reconciler, Request, Result, TerminalError
from manager.controller.source import (
    ChannelSource,
    Handler,
    KindSource,
    MapTo,
    Source,
    TickerSource,
    enqueue_mapped,
    enqueue_object,
    enqueue_owner,
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
    "RateLimiter",
    "Reconciler",
    "Request",
    "Result",
    "RetryBackoff",
    "Source",
    "TerminalError",
    "TickerSource",
    "WorkQueue",
    "all_of",
    "annotation_changed",
    "any_of",
    "created",
    "created_or_deleted",
    "deleted",
    "desired_state_changed",
    "enqueue_mapped",
    "enqueue_object",
    "enqueue_owner",
    "finalizer_changed",
    "generation_changed",
    "label_changed",
    "not_",
    "presence_changed",
    "resource_version_changed",
    "status_changed",
    "termination_started",
]
