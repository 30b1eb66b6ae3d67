"""What can go wrong, in the program's own words."""

from __future__ import annotations

__all__ = ["Failure"]


class Failure(Exception):
    """The program cannot go on; the text is one line for the person who started it."""
