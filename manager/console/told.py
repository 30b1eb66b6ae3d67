"""What a running manager knows of an object, as JSON."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from manager import clock
from manager.api import GroupVersionKind, ObjectKey
from manager.controller import Controller
from manager.manager import Manager
from manager.runs import Run, Trigger


def told_of(manager: Manager, controller: Controller, key: ObjectKey) -> dict[str, Any]:
    """A controller's past, running and next reconciles of an object, as JSON."""
    now = asyncio.get_running_loop().time()
    running, waiting = controller.running(key), controller.waiting(key)
    runs = controller.runs.of(key)
    nothing: dict[str, Any] | None = None
    due, triggers = None, tuple[Trigger, ...]()
    if waiting is not None:
        due, triggers = waiting.due, waiting.triggers
    elif not (runs and runs[-1].failure == "terminal"):  # then a timer does not reconcile the object
        due = controller.next_timer()
        triggers = () if due is None else (Trigger("timer"),)
    return {
        "controller": controller.name,
        "state": controller.state.value,
        "paused": controller.queue is not None and (controller.queue.halted or controller.queue.is_held(key)),
        "uid": uid_of(manager, controller.primary, key),
        "running": nothing if running is None else run_told(running, now),
        "next": nothing
        if waiting is None and due is None
        else {
            "at": None if due is None else moment(due, now),
            "why": [trigger_told(each, now) for each in triggers],
        },
        "runs": [run_told(each, now) for each in runs],
    }


def uid_of(manager: Manager, gvk: GroupVersionKind | None, key: ObjectKey) -> str | None:
    """An object's UID in the cache, so that callers can tell whether they mean the same object."""
    for informer in manager.cache.informers:
        if informer.spec.gvk == gvk and (record := informer.get(key)) is not None:
            return record.uid
    return None


def run_told(run: Run, now: float) -> dict[str, Any]:
    """A reconcile as JSON; `now` is the loop's time."""
    return {
        "id": f"{run.id:016x}",
        "started": moment(run.started, now),
        "waited": round(run.waited, 6),
        "seconds": round(run.seconds if run.outcome else now - run.started, 6),
        "attempt": run.attempt,
        "priority": run.priority,
        "outcome": run.outcome or "running",
        "why": run.why,
        "triggers": [trigger_told(each, now) for each in run.triggers],
        "triggered": run.triggered,
        "requests": [
            {
                "verb": each.verb,
                "path": each.path,
                **({"name": each.name} if each.name else {}),
                "code": each.code,
                "after": round(each.at - run.started, 6),
                "attempts": each.attempts,
                "seconds": round(each.seconds, 6),
                **({"error": each.error} if each.error else {}),
            }
            for each in run.requests
        ],
        "requested": run.requested,
        "writes": run.writes,
        "spared": run.spared,
        "called": run.called,
        "events": [
            {
                "type": each.type,
                "reason": each.reason,
                "message": each.message,
                "after": round(each.at - run.started, 6),
            }
            for each in run.events
        ],
        "recorded": run.recorded,
        "error": run.error,
        "error_type": run.error_type,
        "failure": run.failure,
        "timed_out": run.timed_out,
        "next_in": run.next_in,
        "awaits": run.awaits,
    }


def trigger_told(trigger: Trigger, now: float) -> dict[str, Any]:
    """What enqueued a reconcile, as JSON."""
    told: dict[str, Any] = {"why": trigger.why, "text": trigger.text}
    if trigger.at:
        told["at"] = moment(trigger.at, now)
    if trigger.kind:
        told |= {"source": trigger.source, "kind": trigger.kind}
    if trigger.change:
        told |= {
            "change": trigger.change,
            "namespace": trigger.namespace,
            "name": trigger.name,
            "old": trigger.old,
            "new": trigger.new,
        }
    return told


def moment(at: float, now: float) -> str:
    """A time of the loop's clock as RFC 3339."""
    moment = clock.now() + timedelta(seconds=at - now)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
