from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import pytest

from petstore.embedded import EmbeddedStore, embedded_store


@pytest.fixture(autouse=True)
async def grpc_stays() -> AsyncIterator[None]:
    """Keep gRPC's own thread until the test is over; to wait for its end is no blocking call of ours."""
    grpc.aio.init_grpc_aio()
    yield
    grpc.aio.shutdown_grpc_aio()


@pytest.fixture(params=[False, True], ids=["knows keys", "knows no keys"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[EmbeddedStore]:
    """A store in memory of each kind."""
    async with embedded_store(ignore_idempotency_keys=request.param) as running:
        yield running
