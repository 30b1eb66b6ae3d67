"""The difference between two values, as messages show it."""

from __future__ import annotations

import difflib
import json
from typing import Any

__all__ = ["unified"]


def unified(old: Any, new: Any) -> str:
    """Return a unified diff of two values as JSON, with three lines of context."""
    before, after = (json.dumps(each, indent=1, ensure_ascii=False) + "\n" for each in (old, new))
    lines = list(difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True)))
    return "".join(lines[2:])
