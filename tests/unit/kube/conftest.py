from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trustme

from tests.support.local_server import LocalServer


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
