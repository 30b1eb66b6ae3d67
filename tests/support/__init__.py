"""What the tests stand on: control planes, the manager as a real process, a proxy that makes faults."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The folder of the repository."""
