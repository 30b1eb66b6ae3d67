"""Benchmarks of the manager on a real API server, next to its peers and to the minimum cost of its work."""

from __future__ import annotations

import os

# With this variable every start would compile everything again, unlike on users' machines.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
