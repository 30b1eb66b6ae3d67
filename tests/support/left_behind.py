"""A pytest plugin: what a test leaves behind fails that test.

What a module's fixtures leave behind fails whichever test the garbage collector runs in.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

_NOBODY_HAS_SEEN = (
    "was never retrieved",
    "was destroyed but",
    "unhandled exception during",
    "Exception in callback",
)


class _NobodyHasSeen(logging.Handler):
    """Failures that asyncio only logs are told to pytest, as what nobody catches otherwise."""

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if any(each in message for each in _NOBODY_HAS_SEEN):
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
    logging.getLogger("asyncio").addHandler(_NobodyHasSeen())


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have what the test has made collected now, not in another test, which would fail for it."""
    yield
    request.node.funcargs.clear()
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        with contextlib.suppress(AttributeError):
            delattr(sys, name)  # of a test that has failed, pytest keeps it for a debugger
    # It runs so seldom by itself that what this test has made is in the first two generations.
    gc.collect(1)
