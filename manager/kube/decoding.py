"""The bodies of answers, decoded; that of a watch is framed as one JSON event per line.

Whatever is wrong with one is a ProtocolError that does not quote it: an answer may hold a Secret, and errors
go into logs, statuses and Events.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import Any, Generic, TypeVar

import msgspec
import orjson

from manager.kube.errors import ProtocolError, TooDeep, status_error
from manager.loop import SMALL, Portions

T = TypeVar("T")

MALFORMED = (msgspec.DecodeError, ValueError, RecursionError)
"""What decoders raise, UnicodeDecodeError and orjson's own error among them."""


class Decoder(Generic[T]):
    """Decodes JSON into a type; raises `ProtocolError` for anything else, `TooDeep` for what is nested."""

    __slots__ = ("_decode", "_what")

    def __init__(self, kind: type[T], what: str) -> None:
        """`what` names in messages what is decoded, with its article: "a list"."""
        self._decode = msgspec.json.Decoder(kind).decode
        self._what = what

    def __call__(self, raw: bytes | str | msgspec.Raw) -> T:
        """The value."""
        try:
            return self._decode(raw)
        except MALFORMED as error:
            raise not_a(self._what, error) from None


def json_object(raw: bytes, what: str) -> dict[str, Any]:
    """A JSON object as plain values; raises `ProtocolError`, in which `what` names it, for anything else."""
    try:
        found = orjson.loads(raw)
    except MALFORMED as error:
        cut = shallow_at_once(raw)  # its parser ends at 1,024 levels
        if cut is not raw:
            return json_object(cut, what)
        raise not_a(what, error) from None
    if not isinstance(found, dict):
        raise not_a(what)
    return found


_WRITTEN = 254
"""Levels of nesting that orjson writes; it reads 1,024."""


def writable_object(raw: bytes, what: str) -> dict[str, Any]:
    """As `json_object`, but it can be written as JSON again: what is nested too deeply for that is `null`."""
    found = json_object(raw, what)
    if raw.count(b"{") + raw.count(b"[") <= _WRITTEN:
        return found
    try:
        orjson.dumps(found)
    except TypeError:
        return json_object(shallow_at_once(raw), what)
    return found


def not_a(what: str, error: Exception | None = None) -> ProtocolError:
    """The error for an answer that is not what it should be.

    To be raised `from None`: a traceback shows causes too, and those quote what they could not read.
    """
    reason = ""
    if isinstance(error, msgspec.DecodeError):
        reason = f": {error}"  # of a field its name and type, of a text its position
    elif isinstance(error, RecursionError):
        return TooDeep(f"not {what}: it is nested too deeply")
    elif isinstance(error, UnicodeDecodeError):
        reason = ": it is not UTF-8"
    elif isinstance(error, orjson.JSONDecodeError):
        reason = f": it is no JSON from character {error.pos} on"
    return ProtocolError(f"not {what}{reason}")


_DEPTH = 150
"""Levels of nesting that are read. An API server takes 10,000; msgspec ends at some 900, pydantic at 200."""

_TEXT = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_NESTING = re.compile(rb'"%b("?)|[\[{]++|[\]}]++' % _TEXT.pattern, re.DOTALL)
_QUOTE, _OPENING = ord('"'), b"[{"
_MANAGED_FIELDS = {0: b"metadata", 1: b"managedFields"}


_PIECE = 64 * 1024
"""Bytes that are looked through in one step, during which no thread does anything else."""

_LARGEST = 4 * 1024 * 1024
"""Bytes of an object, and some more: an API server takes 3 MiB."""


async def despite_depth(decode: Callable[[bytes], T], raw: bytes) -> T:
    """What `decode` makes of an answer that may hold anybody's objects; see `shallow`."""
    try:
        return decode(raw)
    except TooDeep:
        return decode(await shallow(raw))


async def shallow(raw: bytes | bytearray, *, objects_at: int | None = None) -> bytes:
    """JSON with `null` in place of what is nested more than 150 levels deep.

    Whoever may write an object can nest its managedFields so, and what it is listed with could not be read
    either. With `objects_at`, the level at which there are objects, this is done to their managedFields only.
    It takes up to a second for each object of the largest size, so it is done in a thread.
    """
    return await asyncio.to_thread(_shallow, raw, objects_at)


def shallow_at_once(raw: bytes) -> bytes:
    """The same for one object, where there is no way to wait; what is longer than any stays as it is."""
    return _shallow(raw, None) if len(raw) <= _LARGEST else raw


def _shallow(raw: bytes | bytearray, objects_at: int | None) -> bytes:
    parts = list[bytes | bytearray]()
    depth, kept, cut = 0, 0, -1
    names = dict[int, bytes | bytearray]()
    for start, end in _tokens(raw):
        first, many = raw[start], end - start
        if first == _QUOTE:
            if objects_at is not None and objects_at <= depth <= objects_at + 1:
                names[depth - objects_at] = raw[start + 1 : end - 1]
        elif first in _OPENING:
            if depth <= _DEPTH < depth + many and (objects_at is None or names == _MANAGED_FIELDS):
                cut = start + _DEPTH - depth
            depth += many
        else:
            if depth - many <= _DEPTH < depth and cut >= 0:
                parts += raw[kept:cut], b"null"
                kept, cut = start + depth - _DEPTH, -1
            depth -= many
    return b"".join((*parts, raw[kept:])) if parts else bytes(raw)


def _tokens(raw: bytes | bytearray) -> Iterator[tuple[int, int]]:
    """Where texts begin and end, and brackets of one kind. The last text may have no end."""
    at = 0
    while at < len(raw):
        end = at + _PIECE
        for token in _NESTING.finditer(raw, at, end):
            start, at = token.span()
            if raw[start] == _QUOTE and not token[1]:
                break
            yield start, at
        else:
            at = end
            continue
        while at < len(raw) and raw[at] != _QUOTE:
            piece = _TEXT.match(raw, at, at + _PIECE)
            # It matches always. Nothing but a backslash that is the last of all keeps it where it is.
            at = piece.end() if piece and piece.end() > at else len(raw)
        at += 1
        yield start, min(at, len(raw))


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


async def lines(chunks: AsyncIterator[bytes], *, limit: int = LINE_LIMIT) -> AsyncGenerator[bytes, None]:
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


_USUAL = [(kind, b'{"type":"%b","object":' % kind.encode()) for kind in ("ADDED", "MODIFIED", "DELETED")]


def _usual_event(line: bytes) -> WatchEvent | None:
    """An event as API servers write it, without a look at the object, which who reads it decodes anyway.

    None for anything else, and for what takes long to read if it is nested too deeply.
    """
    if len(line) <= SMALL and line.endswith(b"}}"):
        for kind, begins in _USUAL:
            if line.startswith(begins):
                return WatchEvent(kind, msgspec.Raw(line[len(begins) : -1]))
    return None


async def watch_events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[WatchEvent, None]:
    """The events of a watch; raises what an ERROR event says, and `ProtocolError` for what is none."""
    portions = Portions()
    async for line in lines(chunks):
        event = _usual_event(line)
        if event is not None:
            await portions.begin(len(line))
        else:
            event = await despite_depth(decode_event, line)
        if event.type == "ERROR":
            raise status_error(event.object)
        yield event
