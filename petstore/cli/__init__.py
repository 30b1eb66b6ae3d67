"""The command `petstore`."""

from __future__ import annotations

from petstore.cli.main import main

__all__ = ["main"]
