"""Cost of parsing a review, and its limits, which are checked before.

A parser cannot be interrupted, so the cost is counted first. The length of a text says little: a megabyte of
one string takes half a millisecond, and a megabyte of empty lists seventy, and thirty times its size in
memory.
"""

from __future__ import annotations

import asyncio

from manager.webhook.endpoint import TooCostly

MAX_OBJECT = 3 * 1024 * 1024
"""Bytes of one object. The API server takes no larger request, and etcd stores half of that."""

STORED_WORK = 150_000
"""Limit of a stored object without its managedFields: 1.2 MB of a Pet, or 3 MB with few fields, are below
that. An object that costs more cannot be converted, and hides all others of a list."""

ROOM = 5_000
"""Reserve for parts that no review shows: in a deletion its time, the grace period and a finalizer (5), and a
status (some tens; 1,000 with a hundred conditions)."""

CHANGED_WORK = STORED_WORK - ROOM
"""Limit of a changed object, unless it cost as much before."""

CREATED_WORK = CHANGED_WORK - ROOM
"""Limit of an object to which its operator has yet to add its finalizer, with annotations perhaps."""

USER_WORK = 50_000
"""Limit of the user's information, and of the options of a request."""

_OBJECTS = 100_000
"""Objects of a review for conversion."""

_NAMED = (b'"apiVersion"', b"\\u006", b"\\u007", b"\\u0056")
"""Each of them contains this name, perhaps with an escaped letter."""

_BYTES = 48
"""Bytes that cost as much as one comma. A list or an object costs two, and each of its members has one."""

_MOST_FOR_A_BYTE = 2 + 1 / _BYTES

_NOTHING = memoryview(b"")

_CHUNK = 128 * 1024
"""Bytes that are counted in one go: about a millisecond."""


async def check_number(body: bytes | bytearray) -> None:
    """Raise `TooCostly` for too many objects to convert, if each of them says its version."""
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
