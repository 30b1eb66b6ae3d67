from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def quiet(log_lines: object) -> None:
    """Capture the log lines, because printing them would block the loop."""
