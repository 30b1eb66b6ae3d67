"""The command line: `run`, `crds`, `migrate-storage`, `version`.

Nothing here imports more than the command at hand needs: `version` and `--help` answer at once.
"""

from __future__ import annotations

from manager.cli.main import main

__all__ = ["main"]
