"""Nodes that exist only as objects, brought to life by kwok."""

from __future__ import annotations

from pathlib import Path
from typing import Any

STAGES = Path(__file__).with_name("kwok_stages.yaml")
# Enough for every pod that a test makes, so that scheduling is never what a test waits for.
ROOM = {"cpu": "1000", "memory": "4Ti", "pods": "50000"}


def node(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
        "status": {"allocatable": ROOM, "capacity": ROOM},
    }
