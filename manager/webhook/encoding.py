"""JSON of what an operator's function has made."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson

__all__ = ["encoded"]

_TOO_DEEP = "Recursion limit reached"


def encoded(value: Any) -> bytes:
    """The JSON of `value`. Raises `TypeError` for what is none, and `RecursionError` for what has no end.

    orjson reads objects that are nested a thousand deep, and writes only a quarter of that. One such object
    must not keep every list that it is in from being converted, so those are left to another encoder.
    """
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        if _TOO_DEEP not in str(error):
            raise
    return msgspec.json.encode(value)
