"""A pytest plugin: what a test leaves behind fails that test."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest


class _NeverAwaited(logging.Handler):
    """What asyncio only logs of tasks and futures is told to pytest, as what nobody catches otherwise."""

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if "was never retrieved" in message or "was destroyed but" in message:
            unraisable: Any = SimpleNamespace(
                err_msg=message,
                exc_type=AssertionError,
                exc_value=AssertionError(message),
                exc_traceback=None,
                object=None,
            )
            sys.unraisablehook(unraisable)


def pytest_sessionstart() -> None:
    """Listen to asyncio."""
    logging.getLogger("asyncio").addHandler(_NeverAwaited())


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have what the test has made collected now, not in another test, which would fail for it."""
    yield
    request.node.funcargs.clear()
    gc.collect(1)  # it runs so seldom by itself that what a test has made is still young
