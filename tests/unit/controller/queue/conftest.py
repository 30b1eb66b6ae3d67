from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from manager.controller.queue import KeyBackoff, WorkQueue
from manager.telemetry.metrics import Metrics

MakeQueue = Callable[[], WorkQueue[str]]


@pytest.fixture
def make_queue(metrics: Metrics, rng: random.Random) -> MakeQueue:
    """Return a function that makes a queue, because a queue belongs to a running loop."""

    def make() -> WorkQueue[str]:
        return WorkQueue("test", metrics=metrics, backoff=KeyBackoff(jitter=0, rng=rng), ageing=10.0)

    return make
