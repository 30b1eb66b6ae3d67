"""The report of an object by this manager, as `explain` and the page of the object show it."""

from __future__ import annotations

import asyncio

import orjson

from manager.api import GroupVersionKind, ObjectKey
from manager.api.confidential import masked
from manager.cache import Record
from manager.console.explanation import ControllerReport, NextReconcile
from manager.controller import Controller
from manager.process.manager import Manager
from manager.telemetry.logs import on_one_line
from manager.telemetry.runs import Trigger
from manager.util import clock

_LARGEST = 256 * 1024
"""Bytes of JSON of the largest object that is written as YAML."""


def controller_report(manager: Manager, controller: Controller, key: ObjectKey) -> ControllerReport:
    """Report a controller's past, running and next reconciles of an object."""
    running, waiting = controller.running(key), controller.waiting(key)
    runs, queue, offset = controller.runs.of(key), controller.queue, unix_offset()
    due, triggers = None, tuple[Trigger, ...]()
    if waiting is not None:
        due, triggers = waiting.due, tuple(each.in_unix_time(offset) for each in waiting.triggers)
    elif not (runs and runs[-1].failure == "terminal"):  # then a timer does not reconcile the object
        due = controller.next_timer()
        triggers = () if due is None else (Trigger("timer"),)
    is_coming = waiting is not None or due is not None
    cached = cached_record(manager, controller.primary, key)
    return ControllerReport(
        controller=controller.name,
        state=controller.state.value,
        paused=queue is not None and (queue.paused or queue.is_paused(key)),
        uid=None if cached is None else cached.uid,
        running=None if running is None else running.in_unix_time(offset),
        next=NextReconcile(None if due is None else due + offset, triggers) if is_coming else None,
        runs=[each.in_unix_time(offset) for each in runs],
    )


def cached_record(manager: Manager, gvk: GroupVersionKind | None, key: ObjectKey) -> Record | None:
    """Return an object from the manager's caches."""
    for informer in manager.cache.informers:
        if informer.spec.gvk == gvk and (record := informer.get(key)) is not None:
            return record
    return None


def unix_offset() -> float:
    """Return Unix time minus the running loop's time."""
    return clock.now().timestamp() - asyncio.get_running_loop().time()


def to_yaml(raw: bytes, gvk: GroupVersionKind) -> str:
    """Write an object as YAML, without confidential values, control characters and `managedFields`."""
    from manager.util.yaml_text import yaml_lines  # noqa: PLC0415 - 13 ms, for this page alone

    if len(raw) > _LARGEST:
        return "it is too large to be shown\n"
    try:
        obj = masked({"apiVersion": gvk.api_version, "kind": gvk.kind, **orjson.loads(raw)})
        obj["metadata"] = {name: each for name, each in obj["metadata"].items() if name != "managedFields"}
        return "".join(f"{on_one_line(line)}\n" for line in yaml_lines(obj))
    except (ValueError, TypeError, RecursionError):
        return "it is nested too deeply to be shown\n"
