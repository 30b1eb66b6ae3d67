"""Pytest plugin that fails a test that leaks resources.

A leak of a module's fixture fails the test that runs when the garbage collector finds the leak.
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
    """Log handler that reports some log lines of asyncio to pytest, as unraisable exceptions."""

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
    logging.getLogger("asyncio").addHandler(_NobodyHasSeen())


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collect garbage after each test, and fail a test that has changed the recursion limit."""
    depth = sys.getrecursionlimit()
    yield
    if sys.getrecursionlimit() != depth:
        sys.setrecursionlimit(depth)
        pytest.fail("the test has changed the recursion limit")
    request.node.funcargs.clear()
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        with contextlib.suppress(AttributeError):
            delattr(sys, name)  # pytest keeps the error of a failed test here for a debugger
    # Automatic collection is so rare that the test's objects are still in the first two generations.
    gc.collect(1)
