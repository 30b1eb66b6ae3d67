"""Decoding of response bodies: objects, paged lists, and watches with one JSON event per line.

Every error in a body raises a `ProtocolError` that does not quote the body: it may contain a Secret, and
errors are written to logs, statuses and Events.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import orjson

from manager.kube.errors import ProtocolError, status_error
from manager.kube.wire import LONGEST_LIST
from manager.util.loop import SMALL, Portions, own_turn
from manager.util.nesting import MOST_LEVELS, TOO_DEEP, is_too_deep

T = TypeVar("T")

MALFORMED = (msgspec.DecodeError, ValueError, RecursionError)
"""The exceptions of decoders, including UnicodeDecodeError and orjson's own error."""


class Decoder(Generic[T]):
    """A decoder of JSON into a type; raises `ProtocolError` for anything else.

    Fields that the type does not name may be nested to any depth. If that exceeds the interpreter's stack,
    the deeper levels are removed before the decoding.
    """

    __slots__ = ("_around", "_decode", "_what")

    def __init__(self, kind: type[T], what: str, *, around: int = 0) -> None:
        """Create a decoder.

        `what` names the decoded body in messages, with its article, such as "a list". `around` is the number
        of JSON levels around each object in the body.
        """
        self._decode = msgspec.json.Decoder(kind).decode
        self._what = what
        self._around = around

    def __call__(self, raw: bytes | msgspec.Raw) -> T:
        """Return the decoded value; deep levels are removed only if JSON has at most `_LARGEST` bytes."""
        try:
            try:
                return self._decode(raw)
            except RecursionError:
                return self._decode(shallow_at_once(bytes(raw)))
        except MALFORMED as error:
            raise not_a(self._what, error, raw) from None

    async def large(self, raw: bytes) -> T:
        """Return the value of an answer that may have many objects; a thread removes too deep levels."""
        try:
            try:
                return self._decode(raw)
            except RecursionError:
                return self._decode(await shallow(raw, around=self._around))
        except MALFORMED as error:
            raise not_a(self._what, error, raw) from None


def json_object(raw: bytes, what: str) -> dict[str, Any]:
    """Return a JSON object as plain values, with `null` for values that are nested too deeply.

    Raises `ProtocolError` for anything else; `what` names the body in the message.
    """
    try:
        found = orjson.loads(shallow_at_once(raw))
    except MALFORMED as error:
        raise not_a(what, error, raw) from None
    if not isinstance(found, dict):
        raise not_a(what)
    return found


def not_a(
    what: str, error: Exception | None = None, raw: bytes | bytearray | msgspec.Raw = b""
) -> ProtocolError:
    """Return the error for `raw`, which is not `what`; `error` is the decoder's exception.

    Raise the result `from None`: a traceback also shows causes, which quote the unreadable text.
    """
    reason = ""
    if is_for_depth(error, raw):
        reason = f": {TOO_DEEP}"
    elif isinstance(error, msgspec.DecodeError):
        reason = f": {error}"  # for a field its name and type, for text its position
    elif isinstance(error, UnicodeDecodeError):
        reason = ": it is not UTF-8"
    elif isinstance(error, orjson.JSONDecodeError):
        reason = f": it is no JSON from character {error.pos} on"
    return ProtocolError(f"not {what}{reason}")


def is_for_depth(error: Exception | None, raw: bytes | bytearray | msgspec.Raw) -> bool:
    """Return whether a decoder failed because of deep nesting; Python versions raise different errors."""
    if isinstance(error, RecursionError):
        return True
    return isinstance(error, MALFORMED) and not isinstance(error, _OF_PLACES) and is_too_deep(raw)


_OF_PLACES = (msgspec.ValidationError, UnicodeDecodeError)
"""Errors about one value or byte: the depth of the JSON is not their cause."""

_TOKEN = re.compile(rb'"[^"]*+"?|[\[{\]}]')
_QUOTE, _OPENING = ord('"'), b"[{"

_PIECE = 64 * 1024
"""Bytes that are searched in one step, during which no other thread runs."""

_LARGEST = 4 * 1024 * 1024
"""The largest size in bytes of an object, with a margin: an API server accepts 3 MiB."""


async def shallow(raw: bytes | bytearray, *, around: int = 0) -> bytes:
    """Return JSON in which values that are nested too deeply are replaced by `null`.

    `around` is the number of levels around each object. Any client that may write an object can nest its
    managedFields too deeply, which would make a list unreadable. The work takes up to a second for the
    largest object, and runs in a thread.
    """
    return await asyncio.to_thread(_shallow, raw, around)


def shallow_at_once(raw: bytes) -> bytes:
    """Cut one object as `shallow` does, in the calling thread; return it unchanged above `_LARGEST` bytes."""
    return _shallow(raw) if len(raw) <= _LARGEST and is_too_deep(raw) else raw


def _shallow(raw: bytes | bytearray, around: int = 0, piece: int = _PIECE) -> bytes:
    parts = list[bytes | bytearray]()
    depth, kept, cut = 0, 0, -1
    most = MOST_LEVELS + around
    for at in _brackets(raw, piece):
        if raw[at] in _OPENING:
            if depth == most:
                cut = at
            depth += 1
        else:
            depth -= 1
            if depth == most and cut >= 0:
                parts += raw[kept:cut], b"null"
                kept, cut = at + 1, -1
    if cut >= 0:
        return b"".join((*parts, raw[kept:cut]))  # the JSON has no end, and is invalid
    return b"".join((*parts, raw[kept:])) if parts else bytes(raw)


def _brackets(raw: bytes | bytearray, piece: int) -> Iterator[int]:
    """Yield the positions of all brackets outside of strings."""
    begin, in_text = 0, False
    while begin < len(raw):
        # Replace escaped backslashes and quotes by as many other characters.
        plain = raw[begin : begin + piece].replace(b"\\\\", b"__").replace(b'\\"', b"__")
        start = plain.find(b'"') + 1 if in_text else 0
        if start or not in_text:
            in_text = False
            for token in _TOKEN.finditer(plain, start):
                if plain[token.start()] != _QUOTE:
                    yield begin + token.start()
                elif plain[token.end() - 1] != _QUOTE or token.end() - token.start() == 1:
                    in_text = True  # the string continues in the next piece
        # A backslash at the end escapes the character after the piece.
        begin += len(plain) + plain.endswith(b"\\")


LINE_LIMIT = 64 * 1024 * 1024
"""Bytes of the longest accepted line. A longer line is no watch event: an object has a few megabytes."""


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """An event of a watch.

    Attributes:
        type: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
        object: the object's JSON, not decoded; for ERROR a Status, see `status_error`.
    """

    type: str
    object: msgspec.Raw


async def lines(chunks: AsyncIterator[bytes], *, limit: int = LINE_LIMIT) -> AsyncGenerator[bytes, None]:
    """Split chunks of any size into lines without their line ends; skip empty lines.

    Bytes after the last line end are dropped: the connection ended in the middle of an event.

    Raises:
        ProtocolError: a line is longer than `limit` bytes.
    """
    begun: list[bytes] = []
    size = 0
    async for chunk in chunks:
        start = 0
        while start < len(chunk):
            end = chunk.find(b"\n", start)  # several times as fast as `split`
            part = chunk[start:] if end < 0 else chunk[start:end]
            size += len(part)
            if size > limit:
                raise ProtocolError(f"a watch event is longer than {limit} bytes")
            begun.append(part)
            if end < 0:
                break
            line = b"".join(begun)
            begun.clear()
            size = 0
            if line:
                yield line
            start = end + 1


decode_event = Decoder(WatchEvent, "a watch event", around=1)
"""Splits a line into its type and its object, which stays undecoded; raises `ProtocolError`."""


_USUAL = {b'{"type":"%b' % kind.encode(): kind for kind in ("ADDED", "MODIFIED", "DELETED")}


def _usual_event(line: bytes) -> WatchEvent | None:
    """Parse an event in the usual format of API servers; the object stays undecoded.

    Returns None for any other format, and for a line of more than `SMALL` bytes.
    """
    if len(line) > SMALL:
        return None
    begins, _, rest = line.partition(b'","object":')
    kind = _USUAL.get(begins)
    if kind is None or not rest.endswith(b"}}"):
        return None
    return WatchEvent(kind, msgspec.Raw(rest[:-1]))


async def watch_events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[WatchEvent, None]:
    """Yield the events of a watch.

    Raises the `ApiError` of an ERROR event, and `ProtocolError` for an invalid line; objects stay undecoded.
    """
    portions = Portions()
    async for line in lines(chunks):
        event = _usual_event(line)
        if event is not None:
            await portions.begin(len(line))
        else:
            event = await decode_event.large(line)
        if event.type == "ERROR":
            raise status_error(event.object)
        yield event


_EMPTY_PAGES = 1_000
"""The number of consecutive pages of a list that may be empty."""


class Page(NamedTuple):
    """A page of a list: undecoded objects at one resource version.

    `resume` is the continue token of the next page, "" on the last page. `remaining` is the number of objects
    after this page, None if the server does not report it. `size` is the number of bytes of the response.
    """

    items: list[msgspec.Raw]
    version: str
    resume: str
    remaining: int | None
    size: int


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    resume: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _List(msgspec.Struct):
    metadata: _Metadata
    items: list[msgspec.Raw] | None = None


decode_list = Decoder(_List, "a list", around=2)
"""Reads one page; raises `ProtocolError`."""


class Listing:
    """A list that is read in pages; a page that links to itself, or too many empty pages, raise an error."""

    def __init__(
        self,
        request: Callable[..., Awaitable[bytes]],
        path: str,
        *,
        longest: int = LONGEST_LIST,
        **options: Any,
    ) -> None:
        """Create a listing; `request` is the transport's method, called with `longest` and `options`."""
        self._request = partial(request, "GET", path, longest=longest, **options)
        self._path = path
        self._empty = 0

    async def page(self, query: Mapping[str, str], resume: str = "") -> Page:
        """Request the page at the continue token `resume`, "" for the first page.

        Raises the errors of the request, and `ProtocolError` for an invalid page, or if the pages make no
        progress. Some consecutive pages may be empty, if filters exclude all their objects.
        """
        raw = await self._request(query={**query, "continue": resume} if resume else query)
        await own_turn(len(raw))
        try:
            found = await decode_list.large(raw)
        except ProtocolError as error:
            raise ProtocolError(f"GET {self._path}: {error}") from None
        items, metadata = found.items or [], found.metadata
        self._empty = 0 if items else self._empty + 1
        if metadata.resume and (metadata.resume == resume or self._empty > _EMPTY_PAGES):
            many = f"{self._empty} consecutive pages are empty"
            why = "a page of it links to itself" if metadata.resume == resume else many
            raise ProtocolError(f"GET {self._path}: not a list: {why}")
        version, remaining = metadata.resource_version, metadata.remaining_item_count
        return Page(items, version, metadata.resume, remaining, len(raw))
