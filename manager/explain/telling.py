"""An explanation, as JSON and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NotRequired, TypedDict

import msgspec
import orjson

from manager import clock
from manager.duration import format_duration
from manager.explain.judging import bad_conditions, conditions_of, is_behind
from manager.explain.looking import Found, Node, bad_leaves, stuck_pods
from manager.kube.decoding import shallow_at_once
from manager.logs import on_one_line, shortened
from manager.runs import CALLED, NO_ANSWER, SPARED, resource_and_name

_MOST_BLOCKING = 6
_LONGEST = 400
_RUNS_SHOWN = 8

Told = dict[str, Any]
Style = Mapping[str, str]

PLAIN: Style = {}
COLOURED: Style = {"good": "\x1b[32m", "bad": "\x1b[31m", "dim": "\x1b[2m", "head": "\x1b[1m"}


class _Text(TypedDict):
    text: str


class _Waiting(TypedDict):
    at: str | None
    why: list[_Text]


class _Request(TypedDict):
    verb: str
    path: str
    code: int
    name: NotRequired[str]
    error: NotRequired[str]


class _Run(TypedDict):
    outcome: str
    started: str
    seconds: float
    why: str
    requests: list[_Request]
    spared: int
    error: str
    error_type: str
    failure: str
    awaits: str


class _Controller(TypedDict):
    controller: str
    state: str
    uid: str | None
    running: dict[str, Any] | None
    next: _Waiting | None
    runs: list[_Run]


class _Owner(TypedDict):
    controller: str
    range: int
    of: int
    holder: str | None
    renewed: str
    silent: bool
    here: bool | None
    problem: str


class _Answer(TypedDict):
    controllers: list[_Controller]
    owners: NotRequired[list[_Owner]]


def told_by_manager(answer: bytes) -> tuple[list[Told], list[Told]]:
    """A manager's answer about an object: its controllers' part, and its owners where replicas share
    the work. Raises `ValueError` for anything else: anybody may answer.
    """
    told = orjson.loads(shallow_at_once(answer))
    msgspec.convert(told, _Answer)
    return told["controllers"], told.get("owners", [])


def explanation(
    found: Found, controllers: Sequence[Told], *, says: bool, manager: str, owners: Sequence[Told] = ()
) -> Told:
    """The whole explanation, as JSON.

    `controllers` is what a running manager tells, `says` whether objects of the kind say in conditions how
    they are, `manager` why there is nothing from a manager, or empty, and `owners` whose it is by controller,
    where replicas share the work.
    """
    blocking = list(_blocking(found, controllers, says=says))
    root = found.root
    return {
        "kind": root.kind,
        "namespace": root.namespace,
        "name": root.name,
        "uid": root.uid,
        "ready": not blocking,
        "blocking": blocking[:_MOST_BLOCKING],
        "conditions": [
            {name: each.get(name) for name in ("type", "status", "reason", "message", "lastTransitionTime")}
            for each in conditions_of(found.object)
        ],
        "tree": _tree(root),
        "events": found.events,
        "controllers": list(controllers),
        "owners": list(owners),
        "manager": manager,
        "missing": found.missing,
    }


def _blocking(found: Found, controllers: Sequence[Told], *, says: bool) -> Iterator[Told]:
    root, own = found.root, found.root.verdict
    if own.reason == "Terminating":
        yield _blocker(root, *own[1:])
    last = [each["runs"][-1] for each in controllers if each.get("runs")]
    failed = [run for run in last if run["outcome"] == "error" and run["failure"] != "race"]
    for run in failed:
        yield _blocker(root, run["error_type"], f"the reconcile fails: {run['error']}")
    # An object may say that it is ready while an update of it is stuck.
    for leaf in stuck_pods(root) if own.ready else bad_leaves(root):
        yield _blocker(leaf, *leaf.verdict[1:])
    for each in bad_conditions(found.object):
        message = str(each.get("message") or "")
        if own.reason == "Terminating" and message and message in own.message:
            continue
        state = f"{each.get('type') or 'a condition'} is {each.get('status') or 'unknown'}"
        yield _blocker(root, f"{each['reason']} ({state})" if each.get("reason") else state, message)
    if failed:
        return  # a manager has looked at it
    if own.reason != "Terminating" and is_behind(found.object):
        yield _blocker(
            root, "NotObserved", "its status is of an earlier spec: no manager has looked at it since"
        )
    elif own.ready is None and says:
        yield _blocker(root, "NotObserved", "it has no conditions yet: no manager has looked at it")


def _blocker(node: Node, reason: str, message: str) -> Told:
    return {
        "kind": node.kind,
        "namespace": node.namespace,
        "name": node.name,
        "reason": reason,
        "message": message,
    }


def _tree(node: Node) -> Told:
    ready, reason, message = node.verdict
    return {
        "kind": node.kind,
        "namespace": node.namespace,
        "name": node.name,
        "ready": ready,
        "reason": reason,
        "message": message,
        "children": [_tree(each) for each in node.children],
        "more": {"ready": node.fine, "not_ready": node.bad},
    }


def text_of(told: Told, style: Style = PLAIN) -> str:
    """The explanation as text. It has no control characters but our own colours."""
    return "\n".join(_lines(told, style)) + "\n"


def _lines(told: Told, style: Style) -> Iterator[str]:
    def paint(text: str, how: str) -> str:
        return f"{style[how]}{text}\x1b[0m" if how in style else text

    name = f"{told['namespace']}/{told['name']}" if told["namespace"] else told["name"]
    how = paint("ready", "good") if told["ready"] else paint("not ready", "bad")
    yield f"{visible(told['kind'])} {visible(name)} is {how}"
    for each in told["blocking"]:
        yield "  " + paint(f"{visible(each['kind'])} {visible(each['name'])}: {said(each)}", "bad")
    if told["conditions"]:
        yield from ("", paint("Conditions", "head"))
        for each in told["conditions"]:
            since = paint(ago(each["lastTransitionTime"]), "dim")
            yield f"  {visible(each['type'])} {visible(each['status'])} {since}"
            yield f"    {said(each)}"
    yield from ("", paint("Objects", "head"))
    yield from _tree_lines(told["tree"], "  ", paint)
    if told["events"]:
        yield from ("", paint("Events", "head"))
        for each in told["events"]:
            times = f" ({each['count']} times)" if each["count"] != 1 else ""
            warning = paint("Warning ", "bad") if each["type"] == "Warning" else ""
            yield f"  {paint(ago(each['at']), 'dim')} {warning}{said(each)}{times}"
    if told["owners"]:
        yield from ("", paint("Whose it is", "head"), *_owner_lines(told["owners"]))
    for each in told["controllers"]:
        yield from (
            "",
            paint(f"Runs of controller {visible(each['controller'])} ({visible(each['state'])})", "head"),
        )
        for run in each["runs"][-_RUNS_SHOWN:]:
            yield from _run_lines(run, paint)
        yield f"  Next: {next_run(each)}"
    for each in (told["manager"], *(f"not known: {each}" for each in told["missing"])):
        if each:
            yield from ("", visible(each))


def _owner_lines(owners: Sequence[Told]) -> Iterator[str]:
    for each in owners:
        yield f"  For controller {visible(each['controller'])} it is in {whose(each)}"
    if any(each["here"] is False for each in owners):
        yield "  The manager that was asked is another replica: what it tells may be older."


def _run_lines(run: Told, paint: Any) -> Iterator[str]:
    outcome = paint("error", "bad") if run["outcome"] == "error" else visible(run["outcome"])
    sent = [f"{_asked(each)} {_came(each)}" for each in run["requests"] if each["code"] != SPARED]
    spared = f", {run['spared']} not needed" if run["spared"] else ""
    did = f"{visible(', '.join(sent)) or 'nothing sent'}{spared}"
    when, took = paint(ago(run["started"]), "dim"), f"{run['seconds'] * 1000:.0f} ms"
    yield f"  {when} {outcome} in {took}: {visible(run['why'])}; {did}"
    if run["error"]:
        yield f"    {visible(run['error_type'])}: {visible(run['error'])}"


def _asked(sent: Told) -> str:
    """A request, or a call of something outside of the cluster, in words."""
    if sent["code"] == CALLED:
        return f"{sent['verb']} {sent['path'].rpartition('/')[2]}"
    resource, name = resource_and_name(sent["path"])
    return " ".join(filter(None, (sent["verb"], resource, sent.get("name") or name)))


def _came(sent: Told) -> str:
    """The outcome of a request, in words."""
    if sent["code"] == CALLED:
        return str(sent.get("error") or "answered")
    return "no answer" if sent["code"] == NO_ANSWER else str(sent["code"])


def next_run(controller: Told) -> str:
    """When a controller reconciles the object next, and why."""
    if controller["running"] is not None:
        return "it is running now"
    waiting = controller["next"]
    awaits = visible(controller["runs"][-1]["awaits"]) if controller["runs"] else ""
    change = f"when {awaits}" if awaits else "when something changes"
    if waiting is None:
        return change
    why = ", ".join(dict.fromkeys(visible(each["text"]) for each in waiting["why"]))
    when = "as soon as a worker is free" if waiting["at"] is None else until(waiting["at"])
    if [each.get("why") for each in waiting["why"]] == ["timer"] and waiting["at"] is not None:
        return f"{when}: {why}, or {change}"
    return f"{when}: {why}" if why else when


def whose(owner: Told) -> str:
    """The range of an object, and which replica holds it."""
    place, holder = f"range {owner['range']} of {owner['of']}", visible(owner["holder"])
    if owner["holder"] is None:
        return f"{place}; who holds it is not known: {visible(owner['problem'])}"
    if not holder:
        return f"{place}, which nobody holds"
    if owner["silent"]:
        return f"{place}, which {holder} has renewed last {ago(owner['renewed'])}: another replica takes it"
    return f"{place}, which {holder} holds"


def _tree_lines(node: Told, indent: str, paint: Any) -> Iterator[str]:
    state = {True: paint("ready", "good"), False: paint("not ready", "bad"), None: ""}[node["ready"]]
    why = f": {said(node)}" if node["ready"] is False else ""
    yield f"{indent}{visible(node['kind'])} {visible(node['name'])} {state}{why}".rstrip()
    for each in node["children"]:
        yield from _tree_lines(each, indent + "  ", paint)
    for kind, count in node["more"]["not_ready"].items():
        yield f"{indent}  {kind}: {count} more not ready"
    for kind, count in node["more"]["ready"].items():
        yield f"{indent}  {kind}: {count} ready"


def said(each: Mapping[str, Any]) -> str:
    """Reason and message, as far as they are there."""
    reason, message = visible(each.get("reason")), visible(each.get("message"))
    return f"{reason}: {message}" if reason and message else reason or message


def visible(text: Any) -> str:
    """The text on one line, shortened, and without control characters."""
    return on_one_line(shortened(str(text or ""), _LONGEST))


def ago(moment: Any) -> str:
    """How long ago a time was, given as RFC 3339."""
    then = _parsed(moment)
    if then is None:
        return "at some time"
    seconds = (clock.now() - then).total_seconds()
    return f"{format_duration(round(max(seconds, 0.0)))} ago"


def until(moment: str) -> str:
    """In how long a time comes, given as RFC 3339."""
    then = _parsed(moment)
    if then is None:
        return "soon"
    seconds = (then - clock.now()).total_seconds()
    return f"in {format_duration(max(round(seconds), 1))}"


def _parsed(moment: Any) -> datetime | None:
    try:
        parsed = datetime.fromisoformat(str(moment))
    except ValueError:
        return None
    return parsed if parsed.tzinfo is not None else None
