"""The command `petstore`."""

from __future__ import annotations

from petstore.cli.commands import main

__all__ = ["main"]
