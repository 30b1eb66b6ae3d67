"""The short hash that tells one pod template from another in names and labels."""

from __future__ import annotations

from typing import Any

import orjson

__all__ = ["template_hash"]

_PRIME, _OFFSET, _MASK = 0x01000193, 0x811C9DC5, 0xFFFFFFFF
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""The letters and digits of Kubernetes' random names: no vowels, and no digits that resemble letters."""


def template_hash(value: Any, collisions: int | None = None) -> str:
    """Return the FNV-1a hash of the sorted JSON, in letters that form no words.

    The real server hashes a dump of Go's memory instead. `collisions` counts how often the result was in use.
    """
    data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    if collisions is not None:
        data += str(collisions).encode()
    digest = _OFFSET
    for byte in data:
        digest = ((digest ^ byte) * _PRIME) & _MASK
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(digest))
