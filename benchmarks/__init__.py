"""What the manager costs on a real API server, next to its peers and to the least that its work can cost."""

from __future__ import annotations

import os

# Where it is set, every start compiles everything again: no user has it so.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
