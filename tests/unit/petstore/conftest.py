from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import pytest

from tests.support.petstores import LocalStore, local_store


@pytest.fixture(autouse=True)
async def grpc_stays() -> AsyncIterator[None]:
    """Keep gRPC's own thread until the test is over.

    When the last channel or server goes, gRPC waits for that thread to end, which is short. It does so in
    whatever code lets go of it, and that is not to look like a blocking call of ours.
    """
    grpc.aio.init_grpc_aio()
    yield
    grpc.aio.shutdown_grpc_aio()


@pytest.fixture(autouse=True)
def environment_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the environment variables that the command line sets, for later child processes."""
    monkeypatch.setenv("GRPC_VERBOSITY", "NONE")


@pytest.fixture
async def store() -> AsyncIterator[LocalStore]:
    """Run a store in memory."""
    async with local_store() as running:
        yield running
