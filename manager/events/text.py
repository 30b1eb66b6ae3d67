"""Text of bounded size."""

from __future__ import annotations

__all__ = ["MESSAGE_BYTES", "REASON_BYTES", "bounded"]

# What the API server takes.
MESSAGE_BYTES = 1024
REASON_BYTES = 128

_ELLIPSIS = "…"


def bounded(text: str, limit: int) -> str:
    """Return `text` as at most `limit` bytes of UTF-8, with an ellipsis where something was cut off."""
    if text.isascii() and len(text) <= limit:
        return text
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > limit:
        encoded = encoded[: limit - len(_ELLIPSIS.encode())]
        return encoded.decode("utf-8", "ignore") + _ELLIPSIS
    return encoded.decode("utf-8")
