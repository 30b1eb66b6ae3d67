"""Limits for the cost of a review, checked before it is parsed.

A parser cannot be interrupted, so the cost is counted first. The length of a text says little: a megabyte of
one string takes half a millisecond, and a megabyte of empty lists seventy, and thirty times its size in
memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from manager.util.loop import SMALL
from manager.webhook.errors import Busy, TooCostly

MAX_OBJECT = 3 * 1024 * 1024
"""Bytes of one object. The API server takes no larger request, and etcd stores half of that."""

STORED_WORK = 150_000
"""What one object may cost that is stored, without its managedFields: 1.2 MB of a Pet, or 3 MB with few
fields, are below that. One that costs more cannot be converted, and hides all others of a list."""

ROOM = 5_000
"""What an object gets that no review has asked about: in a deletion its time, the grace period and a
finalizer (5), and a status (some tens; 1,000 with a hundred conditions)."""

CHANGED_WORK = STORED_WORK - ROOM
"""What a change may let an object cost, unless it cost as much before."""

CREATED_WORK = CHANGED_WORK - ROOM
"""What an object may cost to which its operator has yet to add its finalizer, with annotations perhaps."""

USER_WORK = 50_000
"""What it may cost to say who asks, or with which options."""

_OBJECTS = 100_000
"""Objects of a review for conversion."""

_NAMED = (b'"apiVersion"', b"\\u006", b"\\u007", b"\\u0056")
"""What each of them has at least one of: this name, with any of its letters escaped."""

_BYTES = 48
"""Bytes that cost as much as one comma. A list or an object costs two, and each of its members has one."""

_MOST_FOR_A_BYTE = 2 + 1 / _BYTES

_NOTHING = memoryview(b"")

_CHUNK = 128 * 1024
"""Bytes that are counted in one go: about a millisecond."""


async def check_number(body: bytes | bytearray) -> None:
    """Raise `TooCostly` for more objects to convert than can be, if each of them says its version."""
    count = 0
    for form in _NAMED:
        count += body.count(form)
        await asyncio.sleep(0)
    if count > _OBJECTS:
        raise TooCostly(f"a review here has at most {_OBJECTS} objects")


async def check_object(
    content: bytes | bytearray | memoryview,
    field: str,
    limit: int = STORED_WORK,
    *,
    passed_over: memoryview = _NOTHING,
) -> None:
    """Raise `TooCostly` for an object that is too large, or has too many fields; `field` says which it is.

    A part of it that is `passed_over` costs nothing.
    """
    if len(content) > MAX_OBJECT:
        raise TooCostly(f"`{field}` has {len(content)} bytes, and an object has at most {MAX_OBJECT}")
    if len(content) * _MOST_FOR_A_BYTE <= limit:
        return
    allowed = limit - (len(content) - len(passed_over)) // _BYTES
    # Text in strings costs nothing, but excluding it takes longer than counting it.
    if await _structure(content, allowed, strings=True) <= allowed:
        return
    if await work_of(content, passed_over, enough=limit) > limit:
        raise TooCostly(f"`{field}` has more lists, objects and members than can be read: some {allowed}")


async def work_of(
    content: bytes | bytearray | memoryview, passed_over: memoryview = _NOTHING, *, enough: int
) -> int:
    """Return the cost of an object without the part `passed_over`; it is exact up to `enough`."""
    kept = await _structure(passed_over, len(passed_over) * 2, strings=False)
    length = (len(content) - len(passed_over)) // _BYTES
    return length + await _structure(content, enough - length + kept, strings=False) - kept


async def _structure(content: bytes | bytearray | memoryview, enough: int, *, strings: bool) -> int:
    """Count the cost of commas and brackets, including those in strings if `strings`; stop after `enough`.

    The count is exact as far as the text is valid JSON; a parser stops there too.
    """
    count, inside, position = 0, False, 0
    while position < len(content) and count <= enough:
        chunk = bytes(content[position : position + _CHUNK])
        if not strings:
            # A backslash and what it stands before belong together.
            chunk = chunk[: len(chunk) - (len(chunk) - len(chunk.rstrip(b"\\"))) % 2] or chunk
        position += len(chunk)
        if not strings:
            parts = chunk.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
            chunk = b" ".join(parts[inside::2])
            inside ^= len(parts) % 2 == 0
        count += 2 * (chunk.count(b"{") + chunk.count(b"[")) + chunk.count(b",")
        await asyncio.sleep(0)
    return count


class Turns:
    """Scheduler of reviews, by which neither the loop nor a small review waits long for a large one.

    The small ones of many connections may come at once, and each takes its milliseconds: as many as make up
    `SMALL` bytes are begun in one turn of the loop, and at least one.
    """

    def __init__(self, *, waits: float = 5.0) -> None:
        """Set up the limits; after `waits` seconds, a large review is asked to come again."""
        self._waits = waits
        self._one_at_a_time = asyncio.Lock()
        self._left = SMALL
        """Bytes that may still be begun in this turn of the loop."""

    @asynccontextmanager
    async def taken(self, size: int) -> AsyncIterator[None]:
        """Enter this to work on a review of so many bytes. Raises `Busy`."""
        if size <= SMALL:
            await self._begin(size)
            yield
            return
        try:
            async with asyncio.timeout(self._waits):
                await self._one_at_a_time.acquire()
        except TimeoutError:
            raise Busy("too many large reviews are being answered already; try again") from None
        try:
            await asyncio.sleep(0)
            yield
        finally:
            self._one_at_a_time.release()

    async def _begin(self, size: int) -> None:
        while size > self._left < SMALL:  # noqa: ASYNC110 - a turn of the loop is what is waited for
            await asyncio.sleep(0)
        if self._left == SMALL:
            asyncio.get_running_loop().call_soon(self._renew)
        self._left -= size

    def _renew(self) -> None:
        self._left = SMALL
