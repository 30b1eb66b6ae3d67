"""The command line; each command is a function, whose module is imported when the command runs."""

from __future__ import annotations

from manager.cli.commands import main

__all__ = ["main"]
