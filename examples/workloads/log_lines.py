"""From the pieces that a connection brings to the lines of a log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

__all__ = ["LONGEST", "split_lines"]

LONGEST = 256 * 1024
"""Bytes; a longer line comes in parts, because a container may print without end and without a line end."""


async def split_lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The lines, without their ends. What comes after the last line end is a line too, if the log ends there.

    When the connection breaks instead, that part is dropped: it will come again, and whole.
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
