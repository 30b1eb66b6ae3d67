"""The command line: `run`, `crds`, `migrate-storage`, `version`; each a module, imported for it."""

from __future__ import annotations

from manager.cli.main import main

__all__ = ["main"]
