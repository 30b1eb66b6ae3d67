from __future__ import annotations

import random
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from manager.kube.transport import Transport
from manager.metrics import Metrics
from tests.support.scripted_wire import ScriptedWire

LogLines = list[MutableMapping[str, Any]]


@pytest.fixture(autouse=True)
def log_lines() -> Iterator[LogLines]:
    """What is logged during the test; nothing is printed, which would block the loop."""
    with capture_logs() as lines:
        yield lines


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def rng() -> random.Random:
    return random.Random(7)


@pytest.fixture
async def wire() -> ScriptedWire:
    return ScriptedWire()


@pytest.fixture
async def transport(wire: ScriptedWire, metrics: Metrics, rng: random.Random) -> Transport:
    return Transport(wire, metrics=metrics, rng=rng, user_agent="test")
