"""The command line; each command is a module, imported for it."""

from __future__ import annotations

from manager.cli.main import main

__all__ = ["main"]
