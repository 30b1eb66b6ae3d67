from __future__ import annotations

import random

import pytest

from manager.cache import Cache
from manager.client import Client
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.metrics import Metrics
from tests.support.scripted_wire import Reply, ScriptedWire

CORE = [
    {"name": "namespaces", "kind": "Namespace", "namespaced": False, "verbs": []},
    {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": []},
    {"name": "pods/log", "kind": "Pod", "namespaced": True, "verbs": []},
]


@pytest.fixture
async def wire() -> ScriptedWire:
    wire = ScriptedWire()
    wire.on("GET", "/api/v1", Reply.json({"resources": CORE}))
    return wire


@pytest.fixture
async def client(wire: ScriptedWire) -> Client:
    """A client of the scripted server."""
    rng, metrics = random.Random(1), Metrics()
    transport = Transport(wire, metrics=metrics, rng=rng, user_agent="test")
    mapper = RestMapper(transport)
    cache = Cache(transport, mapper, field_manager="test", metrics=metrics, rng=rng)
    return Client(transport, mapper, cache, field_manager="test")
