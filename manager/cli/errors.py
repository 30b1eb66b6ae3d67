"""What is wrong with a command line, or with what it points to."""

from __future__ import annotations

__all__ = ["OperatorUnusable", "ServerUnusable", "UsageError"]


class UsageError(Exception):
    """An unknown command, flag or argument: one line that names it."""


class OperatorUnusable(Exception):
    """What an installed package calls an operator cannot be one of this program: one line that names it."""


class ServerUnusable(Exception):
    """The API server does not answer, does not know us, or is none: one line that names it."""
