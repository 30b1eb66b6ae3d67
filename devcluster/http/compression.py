"""Compressing large answers, as the real server does."""

from __future__ import annotations

import asyncio
import zlib

__all__ = ["compress", "is_worth_compressing"]

_THRESHOLD = 128 * 1024
_FASTEST = 1
_GZIP = 16 + zlib.MAX_WBITS


def is_worth_compressing(body: bytes, accept_encoding: str) -> bool:
    """Return whether to compress a response: the client accepts gzip, and the body exceeds 128 KiB."""
    if len(body) <= _THRESHOLD or "gzip" not in accept_encoding:
        return False
    return "gzip" in (token.strip() for token in accept_encoding.split(","))


async def compress(body: bytes) -> bytes:
    """Compress with gzip in a thread; zlib releases the GIL, so the event loop continues."""
    return await asyncio.to_thread(_gzip, body)


def _gzip(body: bytes) -> bytes:
    packer = zlib.compressobj(_FASTEST, zlib.DEFLATED, _GZIP)
    return packer.compress(body) + packer.flush()
