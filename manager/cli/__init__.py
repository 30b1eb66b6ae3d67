"""The command line; the module of `run`, and of each installed command, is imported when the command runs."""

from __future__ import annotations

from manager.cli.commands import main

__all__ = ["main"]
