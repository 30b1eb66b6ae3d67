"""The program's own messages on standard error; standard output is for the pods' logs."""

from __future__ import annotations

import sys

__all__ = ["say"]


def say(text: str) -> None:
    """Print one line for the user who started the program."""
    print(" ".join(text.split()), file=sys.stderr, flush=True)
