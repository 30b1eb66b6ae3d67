"""Benchmarks of the manager on a real API server, compared with other libraries and with a baseline."""

from __future__ import annotations

import os

# With this variable, each start would compile all modules again, unlike on users' machines.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
