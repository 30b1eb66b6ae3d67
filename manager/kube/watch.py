"""Framing of a watch: an endless answer of one JSON event per line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

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


_decode = msgspec.json.Decoder(WatchEvent).decode


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


def decode_event(line: bytes) -> WatchEvent:
    """Split an event into its type and its object, which stays undecoded.

    Raises:
        ProtocolError: the line is not a watch event.
    """
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        beginning = line[:80].decode("utf-8", "replace")
        raise ProtocolError(f"not a watch event ({error}): {beginning!r}") from error
