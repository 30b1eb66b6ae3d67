from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from controllers.main import PROGRAM
from devcluster import DevCluster
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics
from manager_tools.migration.definitions import Definitions, RetryingClient
from manager_tools.migration.migration import Migration
from manager_tools.migration.report import MigrationOptions, Outcome
from tests.support.scripted_wire import ScriptedWire
from tests.unit.manager_tools.migration.server import NAME, GadgetServer


class Heard:
    """Report that records the calls of its methods."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given, **named: self.told.append((name, *given, *named.values()))

    def of(self, name: str) -> list[tuple[Any, ...]]:
        """Return the arguments of each call of the method `name`, in order."""
        return [each[1:] for each in self.told if each[0] == name]


@pytest.fixture
async def server(wire: ScriptedWire) -> AsyncIterator[GadgetServer]:
    async with DevCluster(port=None, controllers=False) as cluster:
        server = GadgetServer(cluster, wire)
        await server.define()
        server.fill(10)
        yield server


class Run:
    """Storage migration of the gadgets; a call of the object starts the migration."""

    def __init__(self, server: GadgetServer, **options: Any) -> None:
        rng = random.Random(1)
        transport = Transport(server.wire, metrics=Metrics(), rng=rng, user_agent="test")
        self.heard: Any = Heard()
        client = RetryingClient(transport, rng, tell=self.heard.waiting)
        self.definitions = Definitions(client, PROGRAM)
        chosen = MigrationOptions(**{"page_size": 3, "concurrency": 2, **options})
        self.migration = Migration(self.definitions, client, options=chosen, report=self.heard)

    async def __call__(self) -> Outcome:
        return await self.migration.run(await self.definitions.get(NAME))
