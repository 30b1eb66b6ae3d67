from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator

import pytest
import trustme

from manager.kube.http_wire import HttpWire
from tests.unit.kube.servers import LocalServer, ScriptedServer, wire_to


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """Return a certificate authority, shared because its creation is slow."""
    return trustme.CA()


@pytest.fixture(scope="session")
def other_authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
async def server(authority: trustme.CA) -> AsyncIterator[LocalServer]:
    async with LocalServer(authority) as server:
        yield server


@pytest.fixture
def closing() -> Iterator[None]:
    """Collect garbage after the test, so that an open resource causes an error in this test."""
    gc.freeze()  # exclude the objects of other tests from collection
    yield
    gc.collect()


@pytest.fixture
async def script() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as script:
        yield script


@pytest.fixture
async def wire(script: ScriptedServer) -> AsyncIterator[HttpWire]:
    """Yield an HTTP wire to `script`; then wait until all connections of the wire are closed."""
    async with wire_to(script.url) as wire:
        yield wire
    await script.all_closed()
