from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from manager.controller.queue import KeyBackoff, WorkQueue
from manager.telemetry.metrics import Metrics

MakeQueue = Callable[[], WorkQueue[str]]


@pytest.fixture
def make_queue(metrics: Metrics, rng: random.Random) -> MakeQueue:
    """A queue belongs to a running loop, so each test makes its own."""

    def make() -> WorkQueue[str]:
        return WorkQueue("test", metrics=metrics, backoff=KeyBackoff(jitter=0, rng=rng), ageing=10.0)

    return make
