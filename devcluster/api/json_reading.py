"""JSON as Go reads it, which takes text that is not quite Unicode."""

from __future__ import annotations

import re
from typing import Any

import orjson

__all__ = ["read_json"]

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# `surrogateescape` turns a byte that is not valid UTF-8 into one of these.
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
# A surrogate pair, a lone surrogate, or any other escape, so that the text behind `\\` is not mistaken for
# one.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<alone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)


def read_json(body: bytes) -> tuple[Any, bytes]:
    """Parse JSON; return the document and its text.

    The text is `body`, with U+FFFD in place of each invalid byte and each lone surrogate.

    Raises:
        orjson.JSONDecodeError: the text is not JSON.
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
