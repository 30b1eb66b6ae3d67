from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import pytest

from tests.support.petstores import LocalStore, local_store


@pytest.fixture(autouse=True)
async def grpc_stays() -> AsyncIterator[None]:
    """Keep gRPC's own thread running until the end of the test.

    When the last channel or server closes, gRPC waits shortly for that thread to end. This wait would be
    reported as a blocking call of our code.
    """
    grpc.aio.init_grpc_aio()
    yield
    grpc.aio.shutdown_grpc_aio()


@pytest.fixture(autouse=True)
def environment_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the environment variable GRPC_VERBOSITY, which the program sets, for later child processes."""
    monkeypatch.setenv("GRPC_VERBOSITY", "NONE")


@pytest.fixture
async def store() -> AsyncIterator[LocalStore]:
    """Run a pet store that keeps its data in memory."""
    async with local_store() as running:
        yield running
