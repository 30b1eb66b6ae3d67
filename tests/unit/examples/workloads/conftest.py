from __future__ import annotations

import pytest

from tests.support.scripted_wire import Reply, ScriptedWire

CORE = [
    {"name": "namespaces", "kind": "Namespace", "namespaced": False, "verbs": []},
    {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": []},
    {"name": "pods/log", "kind": "Pod", "namespaced": True, "verbs": []},
]


@pytest.fixture
async def wire(wire: ScriptedWire) -> ScriptedWire:
    wire.on("GET", "/api/v1", Reply.json({"resources": CORE}))
    return wire
