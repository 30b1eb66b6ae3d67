from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from demo.board import Board, Entry, Note
from demo.screen import render


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


def board() -> Board:
    return Board([("Memcached", "a")])


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
def test_a_sample_is_ready_when_its_status_says_so(obj: dict[str, Any], ready: bool) -> None:
    shown = board()
    shown.see("memcacheds", obj)
    assert shown.ready is ready


def test_it_says_what_it_waits_for_and_why() -> None:
    shown = board()
    assert shown.waiting_for() == ["memcached/a is not there"]
    shown.see("memcacheds", sample(status=status(Available="False")))
    assert shown.waiting_for() == ["memcached/a is not ready: why"]
    shown.see("memcacheds", sample(status=status(Available="True")))
    assert shown.waiting_for() == []


def test_only_what_changes_is_told() -> None:
    shown = board()
    assert isinstance(shown.see("memcacheds", sample()), Entry)
    assert shown.see("memcacheds", sample()) is None
    assert shown.see("configmaps", sample(kind="ConfigMap")) is None
    gone = shown.see("memcacheds", sample(), gone=True)
    assert isinstance(gone, Entry)
    assert gone.state == "deleted"
    assert not shown.ready


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
def test_workloads_are_shown_in_a_word(plural: str, obj: dict[str, Any], state: str, ready: bool) -> None:
    entry = board().see(plural, {**sample(kind="X"), **obj})
    assert isinstance(entry, Entry)
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


def test_an_event_is_told_each_time_it_happened() -> None:
    shown = board()
    assert shown.see("events", event()) == Note("10:20:30", True, "pod/p", "Failed", "it broke")
    assert shown.see("events", event()) is None
    assert isinstance(shown.see("events", event(2)), Note)
    assert len(shown.notes) == 2


def test_the_view_shows_samples_workloads_and_events() -> None:
    shown = board()
    shown.see("memcacheds", sample(status=status(Available="True")))
    for number in range(20):
        pod = sample(kind="Pod", status={"phase": "Running"})
        pod["metadata"]["name"] = f"pod-{number:02d}"
        shown.see("pods", pod)
    shown.see("events", event())
    text = io.StringIO()
    Console(file=text, width=100, height=60).print(render(shown, "kubectl get pods"))
    for wanted in ("memcached/a", "Available", "pod/pod-00", "and 6 more", "it broke", "kubectl get pods"):
        assert wanted in text.getvalue()
