"""A Foo's colour."""

from __future__ import annotations

import hashlib
from typing import get_args

from apis.tutorial.v1.foo import Colour

__all__ = ["colour_of"]

_COLOURS: tuple[Colour, ...] = get_args(Colour)


def colour_of(text: str) -> Colour:
    """One of the twelve colours, always the same for the same text, and any as likely as the others."""
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return _COLOURS[int(digest[:8], 16) % len(_COLOURS)]
