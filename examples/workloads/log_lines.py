"""Conversion of a connection's chunks to the lines of a log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

__all__ = ["LONGEST", "split_lines"]

LONGEST = 256 * 1024
"""Bytes; a longer line is split, because a container may print without ever ending a line."""


async def split_lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield the lines without their ends, and the rest after the last line end if the log ends there.

    If the connection breaks, the rest is dropped: a new connection repeats the whole line.
    """
    begun = b""
    async for chunk in chunks:
        *whole, begun = (begun + chunk).split(b"\n")
        for line in whole:
            yield line
        while len(begun) > LONGEST:
            yield begun[:LONGEST]
            begun = begun[LONGEST:]
    if begun:
        yield begun
