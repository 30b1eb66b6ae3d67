from __future__ import annotations

from typing import Any

import pytest

from tests.unit.kube.conftest import authority, closing

__all__ = ["authority", "closing"]


@pytest.fixture(scope="module")
def package() -> Any:
    # Imported here, because the import takes half a second in each worker that collects these tests.
    return pytest.importorskip("kubernetes_asyncio")


@pytest.fixture(scope="module")
def models(package: Any) -> Any:
    return package.client
