"""The answer to one HTTP request, as it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import httptools
from multidict import CIMultiDict

from manager.kube.errors import ConnectionLost, ProtocolError
from manager.kube.wire import LONGEST

READ_AHEAD = 256 * 1024
"""Bytes of a stream that may wait for whoever consumes it, before no more is read from the connection."""


class Headers(Mapping[str, str]):
    """The headers of an answer; of those that came several times, one with all values, separated by commas.

    They are parsed when somebody looks for one that may be there: of most answers nobody wants any.
    """

    __slots__ = ("_head", "_parsed")

    def __init__(self, head: bytes) -> None:
        """What the parser took for the head of an answer, or for several, of which the last one counts."""
        # With one head only, as nearly always, what came with it need not be kept.
        end = head.find(b"\r\n\r\n") if head.startswith(b"HTTP/1.1 2") else -1
        self._head = head if end < 0 else head[: end + 4]
        self._parsed: CIMultiDict[str] | None = None

    def get(self, name: str, default: Any = None) -> Any:
        """As of any mapping."""
        if self._parsed is None and name.lower().encode() not in self._head.lower():
            return default
        return self._all().get(name, default)

    def __getitem__(self, name: str) -> str:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> CIMultiDict[str]:
        if self._parsed is None:
            self._parsed = _HeadReader(self._head).headers
            self._head = b""
        return self._parsed


class _HeadReader:
    """Called by a parser that reads a head once more, for its headers."""

    def __init__(self, head: bytes) -> None:
        self.headers: CIMultiDict[str] = CIMultiDict()
        self._complete = False
        self._parser = httptools.HttpResponseParser(self)
        with suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):  # of what follows
            self._parser.feed_data(head)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._complete:  # else it follows a body in chunks and is of no interest
            key, text = name.decode("latin-1"), value.decode("utf-8", "replace")
            before = self.headers.get(key)
            self.headers[key] = text if before is None else f"{before}, {text}"

    def on_headers_complete(self) -> None:
        self._complete = self._parser.get_status_code() >= HTTPStatus.OK
        if not self._complete:
            self.headers.clear()  # the answer proper is still to come


class Answer:
    """Implements `manager.kube.wire.WireResponse`: a connection fills it in, whoever asked reads it.

    Attributes:
        status: the HTTP status code; 0 until the whole head is there.
        headers: see `Headers`.
    """

    __slots__ = (
        "_complete",
        "_error",
        "_held",
        "_limit",
        "_parts",
        "_paused",
        "_transport",
        "_waiter",
        "_whole",
        "headers",
        "status",
    )

    def __init__(self, transport: asyncio.Transport) -> None:
        """`transport` is what it comes over."""
        self.status = 0
        self.headers = Headers(b"")
        self._transport = transport
        self._parts: list[bytes] = []
        self._held = 0
        self._limit = READ_AHEAD
        self._paused = False
        self._whole = False
        self._complete = False
        self._error: ConnectionLost | None = None
        self._waiter: asyncio.Future[None] | None = None

    # What the connection calls.

    def begin(self, status: int, head: bytes) -> None:
        """The head is there; it may be followed by what came with it."""
        self.status = status
        self.headers = Headers(head)
        self._wake()

    def add(self, part: bytes) -> None:
        """More of the body has come."""
        self._parts.append(part)
        self._held += len(part)
        is_much = self._held > self._limit
        if is_much and not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()
        if is_much or not self._whole:
            self._wake()

    def finish(self) -> None:
        """All of it has come."""
        self._complete = True
        self._resume()  # for the next answer, if nobody wants the rest of this one
        self._wake()

    def fail(self, error: ConnectionLost) -> None:
        """No more of it will come."""
        self._error = error
        self._wake()

    # What the asker calls.

    async def begun(self) -> None:
        """Wait until the head is there; raises `ConnectionLost` if none comes."""
        while not self.status:
            if self._error is not None:
                raise self._error
            await self._news()

    async def read(self, limit: int = LONGEST) -> bytes:
        """See `WireResponse.read`."""
        self._whole, self._limit = True, limit
        self._resume()
        while self._held <= limit:
            if self._complete:
                return self._take()
            if self._error is not None:
                raise self._error
            await self._news()
        self._parts, self._held = [], 0
        raise ProtocolError(f"the answer is longer than {limit} bytes")

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """See `WireResponse.chunks`."""
        while True:
            if self._parts:
                chunk = self._take()
                self._resume()
                yield chunk
            elif self._error is not None:
                raise self._error
            elif self._complete:
                return
            else:
                await self._news()

    def _take(self) -> bytes:
        parts = self._parts
        self._parts, self._held = [], 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def _news(self) -> asyncio.Future[None]:
        self._waiter = asyncio.get_running_loop().create_future()
        return self._waiter

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():  # as it is of who was cancelled
                waiter.set_result(None)
