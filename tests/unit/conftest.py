"""Fixtures of unit tests; `@pytest.mark.virtual_time` is for tests that wait."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from manager.cache import Cache
from manager.client import Client
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics
from tests.support.scripted_wire import ScriptedWire
from tests.support.served_pages import serve_pages

__all__ = ["LogLines", "serve_pages"]

LogLines = list[MutableMapping[str, Any]]


@pytest.fixture
def log_lines() -> Iterator[LogLines]:
    """Capture the log lines of the test, because printing them would block the loop."""
    with capture_logs() as lines:
        yield lines


@pytest.fixture
def gc_thresholds() -> Iterator[None]:
    """Restore the garbage collector's thresholds after a test that changes them."""
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)


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


@pytest.fixture
async def mapper(transport: Transport) -> RestMapper:
    return RestMapper(transport)


@pytest.fixture
async def cache(transport: Transport, mapper: RestMapper, metrics: Metrics, rng: random.Random) -> Cache:
    return Cache(transport, mapper, field_manager="test", metrics=metrics, rng=rng)


@pytest.fixture
async def client(transport: Transport, mapper: RestMapper, cache: Cache) -> Client:
    return Client(transport, mapper, cache, field_manager="test")
