"""Benchmarks of the manager on a real API server, next to its peers and to the minimum cost of its work."""

from __future__ import annotations

import os

# Where it is set, every start compiles everything again: no user has it so.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
