"""Infrastructure of the tests: control planes, the manager as a real process, a fault-injecting proxy."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The folder of the repository."""
