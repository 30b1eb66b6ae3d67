from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trustme

from manager.kube.http_wire import HttpWire
from tests.support.event_loops import LOOPS, Run, runner_on
from tests.support.local_server import LocalServer
from tests.support.scripted_server import ScriptedServer, wire_to


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """A certificate authority; making one costs more than most tests."""
    return trustme.CA()


@pytest.fixture(scope="session")
def other_authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
async def server(authority: trustme.CA) -> AsyncIterator[LocalServer]:
    async with LocalServer(authority) as server:
        yield server


@pytest.fixture(params=LOOPS.values(), ids=LOOPS.keys())
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a scenario on one kind of event loop."""
    return runner_on(request.param)


@pytest.fixture
async def script() -> ScriptedServer:
    return ScriptedServer()


@pytest.fixture
async def wire(script: ScriptedServer) -> AsyncIterator[HttpWire]:
    """Leads to `script`."""
    async with wire_to(script) as wire:
        yield wire
