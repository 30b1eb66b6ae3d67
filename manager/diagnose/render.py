"""An explanation of an object's state, as JSON and as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from manager.diagnose.collect import Collected, Node, bad_leaves, stuck_pods
from manager.diagnose.readiness import bad_conditions, conditions_of, is_behind
from manager.diagnose.report import ControllerReport, ShardOwner
from manager.telemetry.logs import on_one_line, shortened
from manager.telemetry.runs import (
    CALLED,
    NO_ANSWER,
    SPARED,
    ReconcileRecord,
    RequestRecord,
    resource_and_name,
)
from manager.util import clock
from manager.util.duration import format_duration

_MOST_BLOCKING = 6
_LONGEST = 400
_RUNS_SHOWN = 8
_LONGEST_AGO = 1e10
"""Seconds; a manager may answer with any number."""

Style = Mapping[str, str]
Paint = Callable[[str, str], str]

PLAIN: Style = {}
COLOURED: Style = {"good": "\x1b[32m", "bad": "\x1b[31m", "dim": "\x1b[2m", "head": "\x1b[1m"}


class Blocker(msgspec.Struct):
    """An object that keeps another one from being ready, and why."""

    kind: str
    namespace: str
    name: str
    reason: str
    message: str


class Explanation(msgspec.Struct):
    """An object's state, with the reasons why it is not ready."""

    kind: str
    namespace: str
    name: str
    uid: str
    ready: bool
    blocking: list[Blocker]
    conditions: list[dict[str, Any]]
    tree: Node
    events: list[Mapping[str, Any]]
    controllers: Sequence[ControllerReport]
    """The reports of a running manager."""

    owners: Sequence[ShardOwner]
    """By controller, where replicas share the work."""

    manager: str
    """Why there is no report; empty if there is one."""

    missing: list[str]
    """What could not be read, in words."""


def explain(
    found: Collected,
    controllers: Sequence[ControllerReport],
    *,
    has_conditions: bool,
    manager: str = "",
    owners: Sequence[ShardOwner] = (),
) -> Explanation:
    """Explain an object. `has_conditions` is whether objects of its kind report their state in conditions."""
    blocking = list(_blocking(found, controllers, has_conditions=has_conditions))
    root = found.root
    shown = ("type", "status", "reason", "message", "lastTransitionTime")
    return Explanation(
        root.kind,
        root.namespace,
        root.name,
        root.uid,
        not blocking,
        blocking[:_MOST_BLOCKING],
        [{name: each.get(name) for name in shown} for each in conditions_of(found.object)],
        root,
        found.events,
        controllers,
        owners,
        manager,
        found.missing,
    )


def _blocking(
    found: Collected, controllers: Sequence[ControllerReport], *, has_conditions: bool
) -> Iterator[Blocker]:
    root = found.root
    is_deleted = root.reason == "Terminating"
    if is_deleted:
        yield _blocker(root)
    last = [each.runs[-1] for each in controllers if each.runs]
    failed = [run for run in last if run.outcome == "error" and run.failure != "race"]
    for run in failed:
        yield _blocker(root, run.error_type, f"the reconcile fails: {run.error}")
    # An object may say that it is ready while an update of it is stuck.
    yield from map(_blocker, stuck_pods(root) if root.ready else bad_leaves(root))
    for each in bad_conditions(found.object):
        message = str(each.get("message") or "")
        if is_deleted and message and message in root.message:
            continue
        state = f"{each.get('type') or 'a condition'} is {each.get('status') or 'unknown'}"
        yield _blocker(root, f"{each['reason']} ({state})" if each.get("reason") else state, message)
    if failed:
        return  # a manager has looked at it
    if not is_deleted and is_behind(found.object):
        why = "its status is of an earlier spec: no manager has looked at it since"
        yield _blocker(root, "NotObserved", why)
    elif root.ready is None and has_conditions:
        yield _blocker(root, "NotObserved", "it has no conditions yet: no manager has looked at it")


def _blocker(node: Node, reason: str | None = None, message: str | None = None) -> Blocker:
    return Blocker(
        node.kind,
        node.namespace,
        node.name,
        node.reason if reason is None else reason,
        node.message if message is None else message,
    )


def to_text(told: Explanation, style: Style = PLAIN) -> str:
    """Return an explanation as text. Its only control characters are those of `style`."""
    return "\n".join(_lines(told, style)) + "\n"


def _lines(told: Explanation, style: Style) -> Iterator[str]:
    def paint(text: str, how: str) -> str:
        return f"{style[how]}{text}\x1b[0m" if how in style else text

    name = f"{told.namespace}/{told.name}" if told.namespace else told.name
    how = paint("ready", "good") if told.ready else paint("not ready", "bad")
    yield f"{visible(told.kind)} {visible(name)} is {how}"
    for each in told.blocking:
        yield "  " + paint(f"{visible(each.kind)} {visible(each.name)}: {reason_of(each)}", "bad")
    if told.conditions:
        yield from ("", paint("Conditions", "head"))
        for condition in told.conditions:
            since = paint(ago(condition["lastTransitionTime"]), "dim")
            yield f"  {visible(condition['type'])} {visible(condition['status'])} {since}"
            yield f"    {reason_of(condition)}"
    yield from ("", paint("Objects", "head"))
    yield from _tree_lines(told.tree, "  ", paint)
    if told.events:
        yield from ("", paint("Events", "head"))
        for event in told.events:
            times = f" ({event['count']} times)" if event["count"] != 1 else ""
            warning = paint("Warning ", "bad") if event["type"] == "Warning" else ""
            yield f"  {paint(ago(event['at']), 'dim')} {warning}{reason_of(event)}{times}"
    if told.owners:
        yield from ("", paint("Whose it is", "head"), *_owner_lines(told.owners))
    for report in told.controllers:
        yield from _report_lines(report, paint)
    for note in (told.manager, *(f"not known: {each}" for each in told.missing)):
        if note:
            yield from ("", visible(note))


def _owner_lines(owners: Sequence[ShardOwner]) -> Iterator[str]:
    for owner in owners:
        yield f"  For controller {visible(owner.controller)} it is in {owner_text(owner)}"
    if any(owner.here is False for owner in owners):
        yield "  The manager that was asked is another replica: its report may be older."


def _report_lines(report: ControllerReport, paint: Paint) -> Iterator[str]:
    heading = f"Runs of controller {visible(report.controller)} ({visible(report.state)})"
    yield from ("", paint(heading, "head"))
    for run in report.runs[-_RUNS_SHOWN:]:
        yield from _run_lines(run, paint)
    yield f"  Next: {next_run(report)}"


def _run_lines(run: ReconcileRecord, paint: Paint) -> Iterator[str]:
    outcome = paint("error", "bad") if run.outcome == "error" else visible(run.outcome)
    sent = [f"{_request_text(each)} {_result_text(each)}" for each in run.requests if each.code != SPARED]
    spared = f", {run.spared} not needed" if run.spared else ""
    did = f"{visible(', '.join(sent)) or 'nothing sent'}{spared}"
    when, took = paint(ago(run.started), "dim"), f"{run.seconds * 1000:.0f} ms"
    yield f"  {when} {outcome} in {took}: {visible(run.why)}; {did}"
    if run.error:
        yield f"    {visible(run.error_type)}: {visible(run.error)}"


def _request_text(request: RequestRecord) -> str:
    if request.code == CALLED:
        return f"{request.verb} {request.path.rpartition('/')[2]}"
    resource, name = resource_and_name(request.path)
    return " ".join(filter(None, (request.verb, resource, request.name or name)))


def _result_text(request: RequestRecord) -> str:
    if request.code == CALLED:
        return request.error or "answered"
    return "no answer" if request.code == NO_ANSWER else str(request.code)


def next_run(report: ControllerReport) -> str:
    """Say when a controller reconciles the object next, and why."""
    if report.running is not None:
        return "it is running now"
    awaits = visible(report.runs[-1].awaits) if report.runs else ""
    change = f"when {awaits}" if awaits else "when something changes"
    waiting = report.next
    if waiting is None:
        return change
    why = ", ".join(dict.fromkeys(visible(each.text) for each in waiting.triggers))
    when = "as soon as a worker is free" if waiting.at is None else until(waiting.at)
    if [each.why for each in waiting.triggers] == ["timer"] and waiting.at is not None:
        return f"{when}: {why}, or {change}"
    return f"{when}: {why}" if why else when


def owner_text(owner: ShardOwner) -> str:
    """Name the shard of an object, and the replica that holds the shard."""
    place, holder = f"shard {owner.shard} of {owner.shards}", visible(owner.holder)
    if owner.holder is None:
        return f"{place}; its holder is not known: {visible(owner.problem)}"
    if not holder:
        return f"{place}, which no replica holds"
    if owner.silent:
        return f"{place}, which {holder} has renewed last {ago(owner.renewed)}: another replica takes it"
    return f"{place}, which {holder} holds"


def _tree_lines(node: Node, indent: str, paint: Paint) -> Iterator[str]:
    state = {True: paint("ready", "good"), False: paint("not ready", "bad"), None: ""}[node.ready]
    why = f": {reason_of(node)}" if node.ready is False else ""
    yield f"{indent}{visible(node.kind)} {visible(node.name)} {state}{why}".rstrip()
    for each in node.children:
        yield from _tree_lines(each, indent + "  ", paint)
    for kind, count in node.more.not_ready.items():
        yield f"{indent}  {kind}: {count} more not ready"
    for kind, count in node.more.ready.items():
        yield f"{indent}  {kind}: {count} ready"


def reason_of(each: Any) -> str:
    """Return the reason and message of a condition, an Event, a node or a verdict, as far as it has them."""
    if isinstance(each, Mapping):
        reason, message = visible(each.get("reason")), visible(each.get("message"))
    else:
        reason, message = visible(each.reason), visible(each.message)
    return f"{reason}: {message}" if reason and message else reason or message


def visible(text: Any) -> str:
    """Return a text on one line, shortened, and without control characters."""
    return on_one_line(shortened(str(text or ""), _LONGEST))


def ago(moment: Any) -> str:
    """Say how long ago a time was, given as Unix time or as RFC 3339."""
    seconds = _seconds_since(moment)
    return "at some time" if seconds is None else f"{format_duration(round(max(seconds, 0.0)))} ago"


def until(moment: float) -> str:
    """Say in how long a time comes, given as Unix time."""
    seconds = -(_seconds_since(moment) or 0.0)
    return f"in {format_duration(max(round(seconds), 1))}"


def _seconds_since(moment: Any) -> float | None:
    now = clock.now()
    if isinstance(moment, float | int):
        return min(max(now.timestamp() - moment, -_LONGEST_AGO), _LONGEST_AGO)
    try:
        return (now - datetime.fromisoformat(str(moment))).total_seconds()
    except (ValueError, TypeError):  # no time, or one without a zone
        return None
