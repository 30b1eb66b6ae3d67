"""The limit on the nesting of documents."""

from __future__ import annotations

from typing import Any

__all__ = ["TOO_DEEP", "is_too_deep"]

MOST_LEVELS = 200
"""The maximum nesting of objects and arrays; the store's encoder has a limit not far above."""
TOO_DEEP = "exceeded max depth"


def is_too_deep(document: Any, body: bytes) -> bool:
    """Return whether a document is nested too deeply to be stored; `body` is its text."""
    if body.count(b"{") + body.count(b"[") + body.count(b"\n") < MOST_LEVELS:
        return False
    level = [document] if isinstance(document, dict | list) else []
    for _ in range(MOST_LEVELS):
        below = [list(each.values()) if isinstance(each, dict) else each for each in level]
        level = [each for listed in below for each in listed if isinstance(each, dict | list)]
        if not level:
            return False
    return True
