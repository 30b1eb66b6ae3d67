from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import pytest

from devcluster import DevCluster
from petstore.embedded import EmbeddedStore, embedded_store
from tests.unit.controllers.petstore.world import ApiServer, Stage, define_pets


@pytest.fixture(autouse=True)
async def grpc_stays() -> AsyncIterator[None]:
    """Keep gRPC's thread until the end of the test, so that its join is not counted as a blocking call."""
    grpc.aio.init_grpc_aio()
    yield
    grpc.aio.shutdown_grpc_aio()


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
