"""A controller manager in one asyncio process: this module exports the names that most operators need."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manager import webhook
    from manager.api import ObjectKey, Resource
    from manager.api.rights import rbac
    from manager.cache import Informer, Meta, Selection, index_by
    from manager.controller import (
        ControllerOptions,
        Priority,
        Result,
        TerminalError,
        all_of,
        annotation_changed,
        any_of,
        created_or_deleted,
        desired_state_changed,
        generation_changed,
        label_changed,
        not_,
        presence_changed,
        status_changed,
        termination_started,
    )
    from manager.operator import (
        LEFT_OVER,
        NAME_TAKEN,
        AnyOperator,
        Blocked,
        Context,
        Enqueue,
        Operator,
        Owns,
        Reads,
        Steps,
        Watch,
        WatchPods,
        daemon,
        every,
    )
    from manager.process.manager import Lifespan, Runnable
    from manager.server import HttpServer
    from manager.settings import Setting
    from manager.util.loop import Portions

__all__ = [
    "LEFT_OVER",
    "NAME_TAKEN",
    "AnyOperator",
    "Blocked",
    "Context",
    "ControllerOptions",
    "Enqueue",
    "HttpServer",
    "Informer",
    "Lifespan",
    "Meta",
    "ObjectKey",
    "Operator",
    "Owns",
    "Portions",
    "Priority",
    "Reads",
    "Resource",
    "Result",
    "Runnable",
    "Selection",
    "Setting",
    "Steps",
    "TerminalError",
    "Watch",
    "WatchPods",
    "all_of",
    "annotation_changed",
    "any_of",
    "created_or_deleted",
    "daemon",
    "desired_state_changed",
    "every",
    "generation_changed",
    "index_by",
    "label_changed",
    "not_",
    "presence_changed",
    "rbac",
    "status_changed",
    "termination_started",
    "webhook",
]

_HOMES = (
    "operator",
    "controller",
    "cache",
    "api",
    "api.rights",
    "process.manager",
    "server",
    "settings",
    "util.loop",
)


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that the command `version` and the flag `--help` are fast."""
    if name == "webhook":
        return importlib.import_module("manager.webhook")
    if name in __all__:
        for home in _HOMES:
            module = importlib.import_module(f"manager.{home}")
            if hasattr(module, name):
                globals()[name] = getattr(module, name)
                return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
