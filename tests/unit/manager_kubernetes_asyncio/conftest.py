from __future__ import annotations

from tests.unit.kube.conftest import authority, closing

__all__ = ["authority", "closing"]
