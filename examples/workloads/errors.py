"""The program's errors, with messages for its users."""

from __future__ import annotations

__all__ = ["Failure"]


class Failure(Exception):
    """An error that ends the program; the text is one line for its user."""
