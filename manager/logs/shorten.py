"""What strangers write, as a log, an answer or a terminal can bear it."""

from __future__ import annotations

__all__ = ["LONGEST", "on_one_line", "shortened"]

LONGEST = 1024
"""Characters of one value."""


def shortened(text: str, longest: int = LONGEST) -> str:
    """The text; of a longer one the beginning, and how many characters are missing."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… ({len(text) - longest} more characters)"


def on_one_line(text: str) -> str:
    """The text; characters that a terminal would obey, if there are any, as Python writes them."""
    return text if text.isprintable() else repr(text)[1:-1]
