from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from manager.controller.queue import KeyBackoff, WorkQueue
from manager.controller.reconciler import Request
from manager.telemetry.metrics import Metrics

MakeQueue = Callable[[], WorkQueue[Request]]


@pytest.fixture
def make_queue(metrics: Metrics, rng: random.Random) -> MakeQueue:
    """Return a function that makes a queue, because a queue belongs to a running loop."""

    def make() -> WorkQueue[Request]:
        return WorkQueue("test", metrics=metrics, backoff=KeyBackoff(rng=rng))

    return make
