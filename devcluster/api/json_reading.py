"""JSON as Go reads it, which takes text that is not quite Unicode."""

from __future__ import annotations

import re
from typing import Any

import orjson

__all__ = ["read_json"]

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# What `surrogateescape` makes of a byte that is no part of a character.
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
# A pair of surrogates, one that stands alone, or any other escape: what follows a `\\` is not taken for one.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<alone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)


def read_json(body: bytes) -> tuple[Any, bytes]:
    """The document, and the text that it stands for.

    That text is `body` itself, but for what is no character: each byte of that sort, and each surrogate that
    stands alone, is U+FFFD.

    Raises:
        orjson.JSONDecodeError: it is no JSON.
    """
    try:
        return orjson.loads(body), body
    except orjson.JSONDecodeError:
        mended = _mended(body)
        if mended == body:
            raise
        return orjson.loads(mended), mended


def _mended(body: bytes) -> bytes:
    text = _ESCAPED_BYTE.sub(_REPLACEMENT, body.decode(errors="surrogateescape"))
    return _ESCAPE.sub(lambda found: _REPLACEMENT if found["alone"] else found[0], text).encode()
