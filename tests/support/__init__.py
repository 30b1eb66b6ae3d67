"""Helpers of the tests: control planes, the manager as a process, a proxy that injects faults, and more."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The folder of the repository."""

LIBRARY_PACKAGES = (*sorted(path.parent.name for path in ROOT.glob("manager*/py.typed")), "devcluster")
"""The top-level packages in the library's wheel."""
