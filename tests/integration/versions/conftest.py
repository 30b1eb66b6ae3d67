"""A kind with two versions, and the webhook that converts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.versions.parcels import Parcels
from tests.integration.versions.webhook import VersionWebhook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.control_plane import ControlPlane


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[VersionWebhook]:
    with VersionWebhook(tmp_path) as running:
        yield running


@pytest.fixture
def parcels(control_plane: ControlPlane, namespace: str, webhook: VersionWebhook) -> Iterator[Parcels]:
    parcels = Parcels(control_plane, namespace, webhook)
    parcels.define()
    yield parcels
    parcels.remove()
