"""The command `petstore`, which runs a store or calls one."""

from __future__ import annotations

from petstore.cli.commands import main

__all__ = ["main"]
