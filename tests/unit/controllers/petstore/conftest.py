from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from devcluster import DevCluster
from petstore.embedded import EmbeddedStore, embedded_store
from tests.unit.controllers.petstore.world import ApiServer, Stage, define_pets
from tests.unit.petstore.conftest import grpc_stays

__all__ = ["grpc_stays"]


@pytest.fixture(params=[False, True], ids=["with keys", "without keys"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[EmbeddedStore]:
    """Run a store in memory, once with and once without idempotency keys."""
    async with embedded_store(ignore_idempotency_keys=request.param) as running:
        yield running


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """Run a control plane that serves Pets, without controllers."""
    async with DevCluster(port=None, controllers=False) as cluster:
        await define_pets(cluster)
        yield ApiServer(cluster)


@pytest.fixture
def stage(server: ApiServer, store: EmbeddedStore) -> Stage:
    return Stage(server, store)
