from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def quiet(log_lines: object) -> None:
    """Nothing is printed, which would block the loop."""
