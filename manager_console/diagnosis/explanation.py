"""Views of an object for people: a manager's report about reconciles, an explanation, and YAML."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from manager.api import GroupVersionKind, ObjectKey
from manager.api.confidential import masked
from manager.cache import Record
from manager.telemetry.logs import on_one_line, shortened
from manager.telemetry.runs import ReconcileRecord, Trigger
from manager.util import clock
from manager.util.duration import format_duration
from manager_console.diagnosis.collect import Collected, Node, bad_leaves, stuck_pods
from manager_console.diagnosis.readiness import SAID, bad_conditions, conditions_of, is_behind

if TYPE_CHECKING:
    from manager.controller import Controller
    from manager.process.manager import Manager

_MOST_BLOCKING = 6
_LONGEST = 400
_LARGEST = 256 * 1024
"""The size limit, in bytes of JSON, of an object shown as YAML."""

_LONGEST_AGO = 1e10
"""The longest shown duration in seconds, because a manager may report any number."""


class NextReconcile(msgspec.Struct):
    """The time and the cause of an object's next reconcile."""

    at: float | None
    """Unix time; None if the reconcile begins as soon as a worker is free."""

    triggers: tuple[Trigger, ...]


class ControllerReport(msgspec.Struct):
    """An object's past, current and next reconciles by one controller. All times are Unix time."""

    controller: str
    state: str
    paused: bool
    uid: str | None
    """The object's UID in the cache, by which a reader checks that it is the same object."""

    running: ReconcileRecord | None
    next: NextReconcile | None
    runs: list[ReconcileRecord]
    """The last reconciles, oldest first."""


class ShardOwner(msgspec.Struct):
    """The replica that reconciles an object, for one controller."""

    controller: str
    shard: int
    shards: int
    holder: str | None = None
    """The replica; empty if no replica holds the shard, None if unknown because of a `problem`."""

    renewed: str = ""
    """The last renewal of the lease, by the holder's clock; empty if unknown."""

    silent: bool = False
    """Whether the lease has expired, by our clock."""

    here: bool | None = None
    """Whether the reporting replica is the owner; None if no replica reports."""

    problem: str = ""


class ManagerReport(msgspec.Struct):
    """The data about an object that a manager returns to `explain`."""

    controllers: list[ControllerReport]
    owners: list[ShardOwner] = []
    """The owners by controller; empty if replicas do not share the work."""


def to_objects(value: Any) -> Any:
    """Return a report or an explanation as plain JSON values: each struct becomes a map of its fields."""
    if isinstance(value, msgspec.Struct):
        return {name: to_objects(getattr(value, name)) for name in value.__struct_fields__}
    return [to_objects(each) for each in value] if isinstance(value, list | tuple) else value


class Blocker(msgspec.Struct):
    """An object that keeps another one from becoming ready, and the reason."""

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
    """The owners by controller, if replicas share the work."""

    manager: str
    """The reason why there is no report; empty if there is one."""

    missing: list[str]
    """Descriptions of data that could not be read."""


def explain(
    found: Collected,
    controllers: Sequence[ControllerReport],
    *,
    has_conditions: bool,
    manager: str = "",
    owners: Sequence[ShardOwner] = (),
) -> Explanation:
    """Explain an object's state. `has_conditions` says whether its kind reports its state in conditions."""
    blocking = list(_blocking(found, controllers, has_conditions=has_conditions))
    root = found.root
    return Explanation(
        root.kind,
        root.namespace,
        root.name,
        root.uid,
        not blocking,
        blocking[:_MOST_BLOCKING],
        [{name: each.get(name) for name in SAID} for each in conditions_of(found.object)],
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

    def itself(reason: str, message: str) -> Blocker:
        return Blocker(root.kind, root.namespace, root.name, reason, message)

    is_deleted = root.reason == "Terminating"
    if is_deleted:
        yield itself(root.reason, root.message)
    last = [each.runs[-1] for each in controllers if each.runs]
    failed = [run for run in last if run.outcome == "error" and run.failure != "race"]
    for run in failed:
        yield itself(run.error_type, f"the reconcile fails: {run.error}")
    # An object may report that it is ready while its update is stuck.
    for each in stuck_pods(root) if root.ready else bad_leaves(root):
        yield Blocker(each.kind, each.namespace, each.name, each.reason, each.message)
    for condition in bad_conditions(found.object):
        message = condition.get("message", "")
        if is_deleted and message and message in root.message:
            continue
        state = f"{condition.get('type') or 'a condition'} is {condition.get('status') or 'unknown'}"
        yield itself(f"{condition['reason']} ({state})" if condition.get("reason") else state, message)
    if failed:
        return  # a manager has reconciled the object
    if not is_deleted and is_behind(found.object):
        yield itself("NotObserved", "its status is of an earlier spec: no manager has reconciled it since")
    elif root.ready is None and has_conditions:
        yield itself("NotObserved", "it has no conditions yet: no manager has reconciled it")


def controller_report(manager: Manager, controller: Controller, key: ObjectKey) -> ControllerReport:
    """Report a controller's past, running and next reconciles of an object."""
    running, waiting = controller.running(key), controller.waiting(key)
    runs, queue, offset = controller.runs.of(key), controller.queue, unix_offset()
    due, triggers = None, tuple[Trigger, ...]()
    if waiting is not None:
        due, triggers = waiting.due, tuple(each.in_unix_time(offset) for each in waiting.triggers)
    elif not (runs and runs[-1].failure == "terminal"):  # after a terminal failure, a timer does nothing
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
    """Return an object from any of the manager's caches, or None."""
    found = (each.get(key) for each in manager.cache.informers if each.spec.gvk == gvk)
    return next((record for record in found if record is not None), None)


def unix_offset() -> float:
    """Return the seconds to add to the running loop's time to get Unix time."""
    return clock.now().timestamp() - asyncio.get_running_loop().time()


def to_yaml(raw: bytes, gvk: GroupVersionKind) -> str:
    """Return an object as YAML, without confidential values, control characters and `managedFields`."""
    from manager_kinds.manifests import yaml_lines  # noqa: PLC0415 - 10 ms, 0.3 MB, only for this page

    if len(raw) > _LARGEST:
        return "it is too large to be shown\n"
    try:
        obj = masked({"apiVersion": gvk.api_version, "kind": gvk.kind, **orjson.loads(raw)})
        obj["metadata"] = {name: each for name, each in obj["metadata"].items() if name != "managedFields"}
        return "".join(f"{on_one_line(line)}\n" for line in yaml_lines(obj))
    except (ValueError, TypeError, RecursionError):
        return "it is nested too deeply to be shown\n"


def next_run(report: ControllerReport) -> str:
    """Return a text with the time and cause of the object's next reconcile."""
    if report.running is not None:
        return "it is running now"
    awaits = visible(report.runs[-1].awaits) if report.runs else ""
    change = f"when {awaits}" if awaits else "when something changes"
    waiting = report.next
    if waiting is None:
        return change
    why = ", ".join(dict.fromkeys(visible(each.text) for each in waiting.triggers))
    when = "as soon as a worker is free"
    if waiting.at is not None:
        seconds = min(waiting.at - clock.now().timestamp(), _LONGEST_AGO)
        when = f"in {format_duration(max(round(seconds), 1))}"
    if [each.why for each in waiting.triggers] == ["timer"] and waiting.at is not None:
        return f"{when}: {why}, or {change}"
    return f"{when}: {why}" if why else when


def owner_text(owner: ShardOwner) -> str:
    """Return a text with the object's shard, and the replica that holds the shard."""
    place, holder = f"shard {owner.shard} of {owner.shards}", visible(owner.holder)
    if owner.holder is None:
        return f"{place}; its holder is not known: {visible(owner.problem)}"
    if not holder:
        return f"{place}, which no replica holds"
    if owner.silent:
        return f"{place}, which {holder} has renewed last {ago(owner.renewed)}: another replica takes it"
    return f"{place}, which {holder} holds"


def reason_of(each: Any) -> str:
    """Return the reason and message of a condition, Event, node or verdict, if present."""
    if not isinstance(each, Mapping):
        each = {"reason": each.reason, "message": each.message}
    return ": ".join(filter(None, (visible(each.get("reason")), visible(each.get("message")))))


def visible(text: Any) -> str:
    """Return a text on one line, shortened, and without control characters."""
    return on_one_line(shortened(str(text or ""), _LONGEST))


def ago(moment: Any) -> str:
    """Return how long ago `moment` was, as text; `moment` is Unix time or RFC 3339."""
    if isinstance(moment, float | int):
        seconds = clock.now().timestamp() - moment
    else:
        try:
            seconds = (clock.now() - datetime.fromisoformat(str(moment))).total_seconds()
        except (ValueError, TypeError):  # no time, or one without a zone
            return "at some time"
    return f"{format_duration(round(min(max(seconds, 0.0), _LONGEST_AGO)))} ago"
