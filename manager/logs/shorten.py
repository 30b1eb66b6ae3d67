"""What strangers write, at a length that a log, or an answer, can bear."""

from __future__ import annotations

__all__ = ["LONGEST", "shortened"]

LONGEST = 1024
"""Characters of one value."""


def shortened(text: str, longest: int = LONGEST) -> str:
    """The text; of a longer one the beginning, and how many characters are missing."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… ({len(text) - longest} more characters)"
