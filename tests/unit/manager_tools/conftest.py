from __future__ import annotations

from tests.unit.server.conftest import serve_pages

__all__ = ["serve_pages"]
