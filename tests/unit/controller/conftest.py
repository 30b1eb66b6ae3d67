from __future__ import annotations

import random

import pytest

from manager.controller.queue import KeyBackoff, WorkQueue
from manager.telemetry.metrics import Metrics
from tests.unit.controller.doubles import MakeQueue


@pytest.fixture(autouse=True)
def quiet(log_lines: object) -> None:
    """Capture the log, because printing would block the loop."""


@pytest.fixture
def make_queue(metrics: Metrics, rng: random.Random) -> MakeQueue:
    """Return a function that makes a queue, because a queue belongs to a running loop."""
    return lambda: WorkQueue("test", metrics=metrics, backoff=KeyBackoff(jitter=0, rng=rng))
