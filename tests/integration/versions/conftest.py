"""A kind with two versions, and the webhook that converts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.versions.parcels import Parcels, convert
from tests.support.webhook_server import WebhookServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.control_plane import ControlPlane


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[WebhookServer]:
    with WebhookServer(tmp_path) as running:
        running.convert = convert
        yield running


@pytest.fixture
def parcels(control_plane: ControlPlane, namespace: str, webhook: WebhookServer) -> Iterator[Parcels]:
    parcels = Parcels(control_plane, namespace, webhook)
    parcels.define()
    yield parcels
    parcels.remove()
