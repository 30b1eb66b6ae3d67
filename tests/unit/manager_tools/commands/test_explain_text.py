"""Text output of `explain`, and the decoding of a manager's report."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from manager.telemetry.runs import CALLED, EventRecord, ReconcileRecord, RequestRecord, Trigger
from manager_console.diagnosis.collect import Collected, Node
from manager_console.diagnosis.explanation import (
    ControllerReport,
    ManagerReport,
    NextReconcile,
    ShardOwner,
    explain,
    to_objects,
)
from manager_tools.commands.explain import decode_report, to_text

OWNER = ShardOwner("foo", 5, 16, "pod-b_1")


def found() -> Collected:
    return Collected({}, Node("Foo", "default", "web", "a-uid", ready=True), [], [])


def explained(*owners: ShardOwner) -> str:
    return to_text(explain(found(), [], has_conditions=True, owners=owners))


def owner(**changes: Any) -> ShardOwner:
    return msgspec.structs.replace(OWNER, **changes)


def test_explain_text_names_the_shard_holder_and_warns_about_a_report_from_another_replica():
    assert "  For controller foo the object is in shard 5 of 16, which pod-b_1 holds\n" in explained(OWNER)
    assert "Owning replica" not in explained()
    older = "The report below is from another replica, and may be outdated."
    assert older in explained(OWNER, owner(here=False))
    assert older not in explained(owner(here=True)) + explained(OWNER)


def test_explain_text_strips_control_characters_from_lease_fields():
    hostile = "\x1b[2J\x9b31m\u202e\n" * 1000
    text = explained(owner(holder=hostile, controller=hostile, silent=True, renewed=hostile))
    assert not {"\x1b", "\x9b", "\u202e"} & set(text)
    assert len(text) < 2000
    assert "has renewed last at some time: another replica takes it" in text


HOSTILE = "\x1b]0;owned\x07\nline of its own"
TRIGGER = {"why": "event", "at": 1.8e9, "change": "ADDED", "source": "for", "kind": "Foo", "name": "web"}
REQUEST = {"verb": "get", "path": "/api/v1/pods", "at": 1.8e9, "code": 200, "name": "web", "error": ""}
RUN: dict[str, Any] = {
    "controller": "foo",
    "namespace": "default",
    "name": "web",
    "id": "8000000000000000",
    "started": 1.8e9,
    "waited": 0.0,
    "attempt": 0,
    "priority": 0,
    "triggers": [TRIGGER],
    "triggered": 1,
    "outcome": "ok",
    "seconds": 1.0,
    "requests": [REQUEST],
    "error": "none",
    "error_type": "Error",
    "failure": "",
    "awaits": "a change",
}
CONTROLLER: dict[str, Any] = {
    "controller": "foo",
    "state": "waits",
    "paused": False,
    "uid": None,
    "running": None,
    "next": {"at": 1.8e9, "triggers": [TRIGGER]},
    "runs": [RUN, {**RUN, "requests": [{**REQUEST, "code": CALLED, "error": "none"}]}],
}


def texts_in(value: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of each text in a JSON value."""
    if isinstance(value, str):
        yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in inside:
        yield from texts_in(inner, *path, name)


@pytest.mark.parametrize("path", list(texts_in([CONTROLLER])))
def test_explain_text_strips_control_characters_from_the_manager_response(path: tuple[str | int, ...]):
    answer = {"controllers": [copy.deepcopy(CONTROLLER)]}
    where: Any = answer["controllers"]
    for step in path[:-1]:
        where = where[step]
    where[path[-1]] = HOSTILE
    report = decode_report(json.dumps(answer).encode())
    text = to_text(explain(found(), report.controllers, has_conditions=True))
    assert not {"\x1b", "\x07"} & set(text)
    assert "\nline of" not in text


@pytest.mark.parametrize("at", [-1e300, 0, 1e300])
def test_explain_text_lines_stay_short_when_the_manager_reports_extreme_timestamps(at: float):
    report = {**CONTROLLER, "runs": [{**RUN, "started": at}], "next": {"at": at, "triggers": []}}
    decoded = decode_report(json.dumps({"controllers": [report]}).encode())
    text = to_text(explain(found(), decoded.controllers, has_conditions=True))
    assert max(map(len, text.splitlines())) < 120


def test_decode_report_returns_a_report_equal_to_the_encoded_report():
    triggers = (Trigger("event", 1.0, "ADDED", "for", "Foo"), Trigger("timer"))
    run = ReconcileRecord("foo", "ns", "a", "1", 1.0, 0.0, 0, 0, triggers, 2, "success", next_in=2.5)
    run.requests = [RequestRecord("get", "/api/v1/pods", 1.5, code=200)]
    run.events = [EventRecord("Normal", "Created", "a pod", 1.5)]
    reports = [
        ControllerReport("foo", "running", False, "a-uid", run, NextReconcile(None, triggers), [run, run]),
        ControllerReport("bar", "stopped", True, None, None, None, []),
    ]
    report = ManagerReport(reports, [OWNER])
    assert decode_report(json.dumps(to_objects(report)).encode()) == report


def test_decode_report_uses_defaults_for_missing_fields_and_ignores_unknown_fields():
    report = {**CONTROLLER, "runs": [{**RUN, "new": 1}]}
    [controller] = decode_report(json.dumps({"controllers": [report]}).encode()).controllers
    assert (controller.runs[0].writes, controller.runs[0].events) == (0, [])
