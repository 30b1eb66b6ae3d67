from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from examples.workloads.log_lines import LONGEST, split_lines
from manager.kube.errors import ConnectionLost


async def arriving(*chunks: bytes, then: Exception | None = None) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
    if then is not None:
        raise then


async def test_lines_are_whole_however_they_arrive():
    pieces = arriving(b"on", b"e\ntwo\n\nfo", b"", b"ur\n")
    assert [line async for line in split_lines(pieces)] == [b"one", b"two", b"", b"four"]


async def test_split_lines_yields_last_line_without_newline():
    assert [line async for line in split_lines(arriving(b"one\ntwo"))] == [b"one", b"two"]


async def test_split_lines_drops_partial_line_when_connection_is_lost():
    lines = split_lines(arriving(b"one\ntw", then=ConnectionLost("cut")))
    assert await anext(lines) == b"one"
    with pytest.raises(ConnectionLost):
        await anext(lines)


async def test_split_lines_yields_overlong_line_in_parts():
    endless = b"x" * (2 * LONGEST + 10)
    parts = [line async for line in split_lines(arriving(endless[:5], endless[5:], b"\nshort\n"))]
    assert parts[-1] == b"short"
    assert b"".join(parts[:-1]) == endless
    assert max(map(len, parts)) <= LONGEST
