from __future__ import annotations

import random
from typing import Any

import pytest

from manager.controller.queue import KeyBackoff, WorkQueue
from manager.telemetry.metrics import Metrics


@pytest.fixture(autouse=True)
def quiet(log_lines: object) -> None:
    """Capture the log, because printing would block the event loop."""


@pytest.fixture
async def queue(metrics: Metrics, rng: random.Random) -> WorkQueue[Any]:
    return WorkQueue("test", metrics=metrics, backoff=KeyBackoff(jitter=0, rng=rng))
