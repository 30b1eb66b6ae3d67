"""The tables of docs/metrics.md: every family with its type and the names of its labels."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path("docs/metrics.md")
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \| (.+) \|$", re.MULTILINE)
Family = tuple[str, tuple[str, ...]]


def documented() -> list[tuple[str, Family]]:
    """Return the documented metric families by name; the name of a counter ends with `_total`."""
    rows = ROW.findall(PAGE.read_text())
    return [(name, (kind, tuple(re.findall(r"`(\w+)`", labels)))) for name, kind, labels, _ in rows]
