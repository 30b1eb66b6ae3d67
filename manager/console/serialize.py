"""The report of an object by this manager, as `explain` and the page of the object show it."""

from __future__ import annotations

import asyncio

from manager.api import GroupVersionKind, ObjectKey
from manager.cache import Record
from manager.controller import Controller
from manager.diagnose.report import ControllerReport, NextReconcile
from manager.process.manager import Manager
from manager.telemetry.runs import Trigger
from manager.util import clock


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
