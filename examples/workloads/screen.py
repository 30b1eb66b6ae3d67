"""The program's own messages on standard error; standard output is for the pods' logs."""

from __future__ import annotations

import sys

__all__ = ["say"]


def say(text: str) -> None:
    """Tell the person who started the program, in one line."""
    print(" ".join(text.split()), file=sys.stderr, flush=True)
