"""Runs mypy in the test process."""

from __future__ import annotations

import sys

from mypy import api


def run_mypy(*arguments: str) -> str:
    """Return the errors that mypy finds; restore the recursion limit, which mypy changes."""
    depth = sys.getrecursionlimit()
    try:
        said, problem, _ = api.run(["--no-error-summary", *arguments])
    finally:
        sys.setrecursionlimit(depth)
    assert problem == ""
    return said
