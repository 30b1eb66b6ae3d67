from __future__ import annotations

from typing import Any

import pytest

from demo.board import Board, Entry
from demo.columns import Columns


def sample(*, status: Any = None, generation: int = 1, kind: str = "Memcached") -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "default", "uid": "u", "generation": generation}
    return {"kind": kind, "metadata": metadata, **({} if status is None else {"status": status})}


def status(**conditions: str) -> dict[str, Any]:
    return {
        "observedGeneration": 1,
        "conditions": [
            {"type": name, "status": value, "message": "why"} for name, value in conditions.items()
        ],
    }


def definition(kind: str, plural: str, **columns: str) -> dict[str, Any]:
    printed = [
        {"name": name, "type": kind_of, "jsonPath": f".status.{name.lower()}"}
        for name, kind_of in columns.items()
    ]
    names = {"kind": kind, "plural": plural}
    return {
        "spec": {"names": names, "versions": [{"storage": True, "additionalPrinterColumns": printed}]},
    }


def board() -> Board:
    definitions = [
        definition("Memcached", "memcacheds", Size="integer"),
        definition("Foo", "foos", Happy="boolean", Colour="string", Ready="string", Age="date"),
    ]
    return Board([("Memcached", "default", "a")], Columns(definitions))


def seen(shown: Board, plural: str, obj: dict[str, Any], *, gone: bool = False) -> Entry:
    """Return the board's entry for an object that has changed."""
    entry = shown.see(plural, obj, gone=gone)
    assert isinstance(entry, Entry)
    return entry


@pytest.mark.parametrize(
    ("obj", "ready"),
    [
        (sample(), False),
        (sample(status=status(Available="True", Degraded="False")), True),
        (sample(status=status(Available="False")), False),
        (sample(status=status(Available="True"), generation=2), False),
        (sample(status={"happy": False}), True),
    ],
    ids=["no status", "available", "not available", "of an older generation", "without conditions"],
)
def test_sample_is_ready_when_its_status_says_so(obj: dict[str, Any], ready: bool):
    shown = board()
    shown.see("memcacheds", obj)
    assert shown.ready is ready


def test_board_names_the_samples_it_waits_for_and_why():
    shown = board()
    assert shown.waiting_for() == ["memcached/a is not there"]
    shown.see("memcacheds", sample(status=status(Available="False")))
    assert shown.waiting_for() == ["memcached/a is not ready: why"]
    shown.see("memcacheds", sample(status=status(Available="True")))
    assert shown.waiting_for() == []


@pytest.mark.parametrize(
    ("plural", "obj", "state", "ready"),
    [
        ("deployments", {"spec": {"replicas": 2}, "status": {"readyReplicas": 1}}, "1/2 ready", False),
        ("deployments", {"spec": {"replicas": 0}}, "0/0 ready", True),
        ("pods", {"status": {"phase": "Running"}}, "Running", False),
        (
            "pods",
            {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
            "Running, ready",
            True,
        ),
        ("persistentvolumeclaims", {"status": {"phase": "Bound"}}, "Bound", True),
        (
            "services",
            {"spec": {"clusterIP": "10.96.0.9", "ports": [{"port": 80}]}},
            "ClusterIP 10.96.0.9 80",
            True,
        ),
    ],
)
def test_workloads_are_shown_in_a_word(plural: str, obj: dict[str, Any], state: str, ready: bool):
    entry = seen(board(), plural, {**sample(kind="X"), **obj})
    assert (entry.state, entry.ready) == (state, ready)


def event(count: int = 1) -> dict[str, Any]:
    return {
        "kind": "Event",
        "metadata": {"uid": "e", "creationTimestamp": "2026-01-01T10:20:30Z"},
        "involvedObject": {"kind": "Pod", "name": "p"},
        "type": "Warning",
        "reason": "Failed",
        "message": "it broke",
        "count": count,
    }


def ours(reason: str, message: str = "") -> dict[str, Any]:
    """About a custom resource."""
    metadata = {**event()["metadata"], "uid": f"{reason} {message}"}
    about = {"metadata": metadata, "involvedObject": {"kind": "Foo", "name": "f"}}
    return {**event(), **about, "type": "Normal", "reason": reason, "message": message}


def test_board_keeps_events_of_custom_resources_however_many_pods_have_some():
    shown = board()
    for number in range(600):
        about_pod = event()
        about_pod["metadata"]["uid"] = f"p{number}"
        about_pod["involvedObject"]["name"] = f"p{number}"
        about_pod["type"], about_pod["reason"] = (
            ("Warning", "Failed") if number % 2 else ("Normal", "Started")
        )
        shown.see("events", about_pod)
        if number == 0:
            shown.see("events", ours("Grew"))
    assert [(note.about, note.reason) for note in shown.notes] == [("foo/f", "Grew"), ("pod/p599", "Failed")]
