"""Docstrings as descriptions."""

from __future__ import annotations

import inspect
import re

__all__ = ["paragraphs"]

# Lines that stand for themselves: list items, and what is indented under something.
_OWN_LINE = re.compile(r"\s|[-*] |\d+\. ")


def paragraphs(text: str) -> str:
    """Join the lines of each paragraph, which source code breaks at its own width; keep lists as they are.

    `kubectl explain` breaks long lines to the terminal, and would break short ones a second time.
    """
    joined: list[str] = []
    open_paragraph = False
    for line in inspect.cleandoc(text).splitlines():
        stripped = line.rstrip()
        if open_paragraph and stripped and not _OWN_LINE.match(stripped):
            joined[-1] += " " + stripped
        else:
            joined.append(stripped)
        open_paragraph = bool(stripped)
    return "\n".join(joined)
