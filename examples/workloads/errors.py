"""The program's errors, with messages for its users."""

from __future__ import annotations

__all__ = ["Failure"]


class Failure(Exception):
    """The program cannot continue; the text is one line for its user."""
