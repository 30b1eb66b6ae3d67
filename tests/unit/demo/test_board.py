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


def board() -> Board:
    names, version = {"kind": "Memcached", "plural": "memcacheds"}, {"storage": True}
    return Board(
        [("Memcached", "default", "a")], Columns([{"spec": {"names": names, "versions": [version]}}])
    )


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
    entry = board().see(plural, {**sample(kind="X"), **obj})
    assert isinstance(entry, Entry)
    assert (entry.state, entry.ready) == (state, ready)
