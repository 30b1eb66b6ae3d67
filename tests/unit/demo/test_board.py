from __future__ import annotations

from typing import Any

import pytest

from demo.board import Board
from demo.columns import Columns


def sample(*, status: Any = None, generation: int = 1) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "default", "uid": "u", "generation": generation}
    return {"kind": "Memcached", "metadata": metadata, **({} if status is None else {"status": status})}


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
