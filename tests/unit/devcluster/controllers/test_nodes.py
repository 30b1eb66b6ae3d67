from __future__ import annotations

import pytest

from devcluster.controllers import queue
from tests.unit.devcluster.controllers.conftest import Cluster

pytestmark = pytest.mark.virtual_time


@pytest.fixture
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """One on which any work takes so long by the real clock that its key has to pause for half a second."""
    monkeypatch.setattr(queue, "LONG", 0.0)
    monkeypatch.setattr(queue, "PAUSE_FACTOR", 1e9)


async def test_nodes_are_ready_however_slow_the_machine_was_at_the_start(
    slow_machine: None, cluster: Cluster
) -> None:
    await cluster.settle()
    nodes = cluster.list("nodes", "")
    assert [node["metadata"]["name"] for node in nodes] == ["node-0", "node-1", "node-2"]
    assert [node["spec"].get("taints") for node in nodes] == [None] * 3
