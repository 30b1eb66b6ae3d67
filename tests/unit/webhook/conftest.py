from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

LogLines = list[MutableMapping[str, Any]]


@pytest.fixture(autouse=True)
def log_lines() -> Iterator[LogLines]:
    """What is logged during the test; nothing is printed, which would block the loop."""
    with capture_logs() as lines:
        yield lines
