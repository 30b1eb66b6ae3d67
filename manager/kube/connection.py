"""An HTTP/1.1 connection that sends one request at a time and waits for its response.

A general HTTP client costs more, because it does more: redirects, decompression, cookies, retries or
HEAD. The head and the body of a request are sent together.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, cast

import httptools
from multidict import CIMultiDict

from manager.kube.errors import ConnectionLost, ProtocolError
from manager.kube.wire import LONGEST

PIECE = 256 * 1024
"""Bytes written to the socket in one step: encrypting more would block the event loop for too long."""

READ_AHEAD = 256 * 1024
"""Bytes of a stream that may wait for their reader; then the connection pauses reading."""

HEAD_LIMIT = 256 * 1024
"""Bytes of an answer before its body, between two parts of the body, or after it.

The warnings of admission policies can be long.
"""

_INFORMATIONAL, _END = (b"HTTP/1.1 1", b"HTTP/1.0 1"), b"\r\n\r\n"

_WITHOUT_BODY = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class Headers(Mapping[str, str]):
    """The headers of an answer; a repeated header has all its values, separated by commas.

    For most answers no header is read, so the lines are parsed only at the first use.
    """

    __slots__ = ("_found", "_head")

    def __init__(self, head: bytes) -> None:
        """Create the headers from the head of an answer, without its final empty line."""
        self._head = head
        self._found: CIMultiDict[str] | None = None

    def get(self, name: str, default: Any = None) -> Any:
        there = self._head.lower().find(name.lower().encode()) >= 0  # `in` is slow for bytes in bytes
        return self._parsed().get(name, default) if there else default

    def __getitem__(self, name: str) -> str:
        return self._parsed()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parsed())

    def __len__(self) -> int:
        return len(self._parsed())

    def _parsed(self) -> CIMultiDict[str]:
        """Parse the lines once; the connection's parser has already checked them."""
        if self._found is None:
            values: dict[str, tuple[str, list[str]]] = {}
            for line in self._head.decode("utf-8", "replace").split("\r\n")[1:]:
                name, _, value = line.partition(":")
                values.setdefault(name.lower(), (name, []))[1].append(value.strip(" \t"))
            self._found = CIMultiDict({name: ", ".join(each) for name, each in values.values()})
        return self._found


@dataclass(slots=True, eq=False)
class Answer:
    """A `manager.kube.wire.WireResponse` that the connection fills and the caller reads."""

    transport: asyncio.Transport
    status: int = 0
    """The HTTP status code; 0 until the head is complete."""

    headers: Headers = field(init=False)
    """Set together with `status`."""

    parts: list[bytes] = field(default_factory=list)
    """The unread part of the body, with `held` bytes."""

    held: int = 0
    limit: int = READ_AHEAD
    """The number of unread bytes after which the connection pauses reading."""

    whole: bool = False
    """Whether the caller waits for the whole body."""

    paused: bool = False
    complete: bool = False
    error: ConnectionLost | None = None
    """The reason why no more of the body will arrive."""

    waiter: asyncio.Future[None] | None = None
    """The future of a caller that waits for more."""

    def wake(self) -> None:
        waiter, self.waiter = self.waiter, None
        if waiter is not None and not waiter.done():  # the future of a cancelled caller is done
            waiter.set_result(None)

    def resume(self) -> None:
        """Let the connection continue to read."""
        self.paused = False
        if not self.transport.is_closing():
            self.transport.resume_reading()

    async def news(self) -> None:
        """Raise `error` if it is set; otherwise wait for the next `wake`."""
        if self.error is not None:
            raise self.error
        self.waiter = asyncio.get_running_loop().create_future()
        await self.waiter

    async def read(self, limit: int = LONGEST) -> bytes:
        self.whole, self.limit = True, limit
        if self.paused:
            self.resume()
        while self.held <= limit:
            if self.complete:
                parts, self.parts, self.held = self.parts, [], 0
                return parts[0] if len(parts) == 1 else b"".join(parts)
            await self.news()
        self.parts, self.held = [], 0
        raise ProtocolError(f"the answer is longer than {limit} bytes")

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        while True:
            if self.parts:
                parts, self.parts, self.held = self.parts, [], 0
                if self.paused:
                    self.resume()
                yield parts[0] if len(parts) == 1 else b"".join(parts)
            elif self.complete:
                return
            else:
                await self.news()


class Connection(asyncio.Protocol):
    """The protocol on one socket.

    Attributes:
        context: the connection's TLS context, None for plain HTTP.
        idle_since: the loop time at which the connection returned to the pool.
    """

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.context = context
        self.idle_since = 0.0
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self._head: list[bytes] = []  # the parts of an incomplete head
        self._sending = False
        self._besides = 0  # bytes of the answer since the last part of its body
        self._may_end_with_connection = False
        self._writable: asyncio.Future[None] | None = None
        self._lost = asyncio.get_running_loop().create_future()

    @property
    def is_idle(self) -> bool:
        """Return whether the connection is open and ready for the next request."""
        return self._answer is None and self._transport is not None and not self._transport.is_closing()

    async def ask(self, head: bytes, body: bytes, permit: Callable[[], None] | None) -> Answer:
        """Send a request and wait for the head of its answer.

        Args:
            head: request line and headers, including the empty line.
            body: the bytes of the request's body.
            permit: `WireRequest.permit`, called before each piece. If it refuses the first piece, nothing is
                sent and the connection is unchanged. If it refuses a later piece, the request stays
                incomplete.

        Raises:
            ConnectionLost: the connection broke; if it was broken before, nothing was sent.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionLost("the connection broke before the request was sent")
        if permit is not None:
            permit()
        answer = self._answer = Answer(transport)
        self._besides, self._may_end_with_connection = 0, False
        if len(body) <= PIECE:
            transport.write(head + body)
        else:
            transport.write(head + body[:PIECE])
            self._sending = True
            # The server would take the next request for the rest of an incomplete one.
            self._sending = not await self._send_rest(transport, answer, body, permit)
        while not answer.status:
            await answer.news()
        return answer

    def abort(self) -> None:
        """Close the connection at once; an unfinished answer is lost."""
        self._may_end_with_connection = False
        if self._transport is not None:
            self._transport.abort()

    def hand_over(self) -> asyncio.Transport:
        """Return the transport, for use by another protocol; allowed only before the first request."""
        transport, self._transport = self._transport, None
        if transport is None or transport.is_closing():
            raise ConnectionLost("the connection broke before anything was sent")
        self._lost.set_result(None)
        return transport

    async def wait_closed(self) -> None:
        """Wait until the connection is closed."""
        await asyncio.shield(self._lost)  # a cancelled caller must not cancel the others

    async def _send_rest(
        self, transport: asyncio.Transport, answer: Answer, body: bytes, permit: Callable[[], None] | None
    ) -> bool:
        """Send the rest of a request; return False if the answer, or the connection's end, comes first."""
        for start in range(PIECE, len(body), PIECE):
            await asyncio.sleep(0)  # let other tasks run
            if self._writable is not None:
                await self._writable
            if answer.status or transport.is_closing():
                return False  # the server needs no more of the request
            if permit is not None:
                permit()
            # No await may stand between: the permit is valid only now.
            transport.write(body[start : start + PIECE])
        return True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Feed the parser; close the connection on any data except the answer to a request."""
        answer = self._answer
        if answer is None:
            self.abort()  # data without a request
            return
        self._besides += len(data)
        if not answer.status:
            self._head.append(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._give_up(f"the answer is no HTTP ({error})")
            return
        if self._besides > HEAD_LIMIT and self._answer is not None:
            self._give_up("the answer has too much besides its body")

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self.resume_writing()
        answer = self._answer
        if answer is not None and error is None and self._may_end_with_connection and _has_no_end(answer):
            answer.complete = True
            answer.wake()
        else:
            reason = str(error) if error is not None else ""
            self._fail(f"the connection broke: {reason or 'the server hung up'}")
        self._lost.set_result(None)

    def pause_writing(self) -> None:
        """Block writers, because the server reads too slowly."""
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """Release blocked writers, because the server has caught up or the connection is closed."""
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    def on_message_begin(self) -> None:
        if self._answer is None:
            raise ValueError("an answer without a request")

    def on_headers_complete(self) -> None:
        answer = self._answer
        assert answer is not None
        status: int = self._parser.get_status_code()
        if status < HTTPStatus.OK:
            return  # the final answer is still to come
        head = b"".join(self._head).lstrip()
        self._head.clear()
        while head.startswith(_INFORMATIONAL):
            head = head[head.find(_END) + len(_END) :].lstrip()
        answer.status, answer.headers = status, Headers(head[: head.find(_END)])
        self._may_end_with_connection = True
        answer.wake()
        if self._sending:
            self.resume_writing()  # the server does not need the rest of the request

    def on_body(self, part: bytes) -> None:
        """Add a part of the body, and pause reading if too much is unread."""
        answer = self._answer
        assert answer is not None
        self._besides = 0
        answer.parts.append(part)
        answer.held += len(part)
        if answer.held > answer.limit:
            if not answer.paused and not answer.transport.is_closing():
                answer.paused = True
                answer.transport.pause_reading()
        elif answer.whole:
            return
        if answer.waiter is not None:
            answer.wake()

    def on_message_complete(self) -> None:
        """Finish the response, unless it is informational (1xx) and the final one follows."""
        answer = self._answer
        assert answer is not None
        if not answer.status:
            return
        self._answer = None
        answer.complete = True
        if answer.paused:
            answer.resume()  # for the next response, if the caller stopped reading this one
        answer.wake()
        if (self._sending or not self._parser.should_keep_alive()) and self._transport is not None:
            self._transport.close()

    def _give_up(self, reason: str) -> None:
        self._fail(reason)
        self.abort()

    def _fail(self, reason: str) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            where = ", in the middle of the answer" if answer.status else ""
            answer.error = ConnectionLost(f"{reason}{where}")
            answer.wake()


def _has_no_end(answer: Answer) -> bool:
    """Return whether an answer ends only when the server closes the connection."""
    framed = "Content-Length" in answer.headers or "Transfer-Encoding" in answer.headers
    return not framed and answer.status not in _WITHOUT_BODY
