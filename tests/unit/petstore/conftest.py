from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.petstores import LocalStore, local_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def store() -> AsyncIterator[LocalStore]:
    """A store in memory."""
    async with local_store() as running:
        yield running
