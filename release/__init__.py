"""Generation of the files that install the project in a cluster: manifests, Helm chart, OLM bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from manager.util.program import Program
from manager.util.version import VERSION

__all__ = ["PROGRAM", "ROOT"]

ROOT: Final = Path(__file__).resolve().parent.parent
PROGRAM: Final = Program("operator-manager", VERSION)
