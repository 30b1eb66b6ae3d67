"""Framing of a watch: an endless answer of one JSON event per line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from manager.kube.decoding import Decoder
from manager.kube.errors import ProtocolError, status_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["LINE_LIMIT", "WatchEvent", "decode_event", "lines", "status_error"]

LINE_LIMIT = 64 * 1024 * 1024
"""Bytes of the longest line taken. An object is a few megabytes at most; a longer line is no watch event."""


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """One event.

    Attributes:
        type: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
        object: the object's JSON, not decoded; for ERROR a Status, see `status_error`.
    """

    type: str
    object: msgspec.Raw


async def lines(chunks: AsyncIterator[bytes], *, limit: int = LINE_LIMIT) -> AsyncIterator[bytes]:
    """Cut pieces of any size into lines, without the line ends; empty lines are left out.

    What comes after the last line end is never given out: the connection ended in the middle of
    an event.

    Raises:
        ProtocolError: a line is longer than `limit` bytes.
    """
    begun: list[bytes] = []
    size = 0
    async for chunk in chunks:
        first, *rest = chunk.split(b"\n")
        size += len(first)
        if size > limit:
            raise ProtocolError(f"a watch event is longer than {limit} bytes")
        begun.append(first)
        if not rest:
            continue
        line = b"".join(begun)
        last = rest.pop()
        if line:
            yield line
        for line in rest:
            if line:
                yield line
        begun = [last]
        size = len(last)


decode_event = Decoder(WatchEvent, "a watch event")
"""Splits a line into its type and its object, which stays undecoded; raises `ProtocolError`."""
