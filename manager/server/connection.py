"""A connection of a server: its requests one after the other, within limits of size and time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one server; times in seconds. The defaults fit pages with few readers."""

    connections: int = 128
    """Open connections at once. A scraper or a probe has one or two."""

    handshake: float = 10.0
    """For a TLS handshake."""

    head: float = 10.0
    """For the first byte of a new connection, and from the first byte of a head to its last."""

    exchange: float = 120.0
    """From the head of a request to the end of its answer."""

    write_stall: float = 10.0
    """For a client that does not read its answer."""

    linger: float = 2.0
    """For the unread rest of a body, and for a client to answer the end of a TLS session."""

    keep_alive: float = 90.0
    """For the next request, as with Go's clients and servers: a scraper that comes every minute finds its
    connection open."""

    eviction: float = 1.0
    """Until a client that neither sends the rest of its request nor reads its answer loses its connection to
    another client, if no connection is left."""

    drain: float = 0.5
    """For answers under way once the server stops."""


_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

LONGEST_HEAD = 32 * 1024
"""Bytes of a request before its body."""

_BLANK_LINE = b"\r\n\r\n"


class ClientConnection(asyncio.Protocol):
    """Filter between a transport and the HTTP protocol that limits what a client may send.

    The protocol gets a head once it is whole, a body once its request is being answered, and the next head
    once the answer is sent. aiohttp limits neither a head as a whole, nor its time, nor pipelined requests.
    """

    def __init__(
        self, protocol: asyncio.Protocol, on_idle: Callable[[], None], limits: Limits, *, client: str = ""
    ) -> None:
        """`on_idle` is called after each answer; connections with the same `client` share its quota."""
        self.protocol = protocol
        self.client = client
        self.over = asyncio.Event()
        """Set when the connection is lost, or has to end."""
        self.lost = asyncio.Event()
        self.answering = False
        self.has_asked = False
        """Whether a request has begun to come, at any time."""
        self._on_idle = on_idle
        self._limits = limits
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._idle_since = asyncio.get_running_loop().time()
        self._stalled_since: float | None = None
        """Since when the client does not read its answer."""
        self._received = bytearray()
        """Bytes that are not passed on yet."""
        self._paused = False
        """Whether reading waits until they are."""
        self._discards = False
        """Whether all that still comes is dropped, because the answer is the last."""
        self._has_ended = False
        """Whether the client sends no more."""
        self._empty_lines = 0
        """Bytes of empty lines before a head."""
        self._head_begun = False
        """Whether a request has begun to come that is not answered yet."""
        self._head_passed = False
        """Whether a head is passed on, and its answer has not begun."""
        self._body = 0
        """Bytes of a body that are still to come."""
        self._body_has_come: Callable[[], bool] | None = None
        self._answer_began = 0.0

    @property
    def client_idle_since(self) -> float | None:
        """Return since when, in loop time, the server waits for the client; None while the client waits."""
        if not self.answering:
            return self._idle_since
        if self._body_has_come is not None and not self._body_has_come():
            return self._answer_began
        return self._stalled_since

    @property
    def is_busy(self) -> bool:
        """Return whether a request has begun and is unanswered, or response bytes are unsent."""
        if self.answering or self._head_begun or self._received:
            return True
        return self._transport is not None and self._transport.is_closing()

    def begin_answer(self, body_has_come: Callable[[], bool], length: int | None) -> None:
        """Note that a request is being answered, with `length` bytes of a body; None drops all that comes."""
        loop = asyncio.get_running_loop()
        self.answering = True
        self._body_has_come, self._answer_began = body_has_come, loop.time()
        self._body, self._discards = length or 0, length is None
        self._head_begun = self._head_passed = False
        self._limit(self._limits.exchange, self._abort)
        loop.call_soon(self._pass_on)

    def end_answer(self) -> None:
        """Note that the answer is on its way."""
        loop = asyncio.get_running_loop()
        self.answering = False
        self._body_has_come, self._idle_since = None, loop.time()
        self._on_idle()
        if (self._body or self._discards) and not self._has_ended:
            # The protocol reads on for as long: closed before, the connection is reset, and the reset may
            # overtake the answer.
            self._limit(self._limits.linger, self._abort)
        else:
            self._limit(self._limits.keep_alive, self._close)
        loop.call_soon(self._pass_on)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request: the TLS handshake, if there is one, is over."""
        self._transport = cast("asyncio.Transport", transport)
        self._limit(self._limits.head, self._end_late)
        self.protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass on what the protocol may have now, and keep the rest."""
        if self._transport is not None and len(data) <= self._body and not (self._received or self._discards):
            # A part of a body goes on without a copy.
            self._body -= len(data)
            self.protocol.data_received(data)
            return
        self._received += data
        self._pass_on()

    def _pass_on(self) -> None:
        if self._transport is None:
            return
        received, self._received = self._received, bytearray()
        try:
            self._pass_parts_on(received, self._transport)
        finally:
            received.clear()  # the traceback of an error may keep this frame until a collection of garbage

    def _pass_parts_on(self, received: bytearray, transport: asyncio.Transport) -> None:
        start, end = 0, len(received)
        if self._discards:
            start = end
        while start < len(received) and not transport.is_closing():
            if self._body:
                end = min(start + self._body, len(received))
                self._body -= end - start
            elif self.answering or self._head_passed:
                break
            else:
                start, end = self._find_head(received, start)
                if not end:
                    break
            self.protocol.data_received(bytes(received[start:end]))
            start = end
        if transport.is_closing():
            return
        if self._has_ended and (self._body or not (self.answering or self._head_passed)):
            transport.close()
            return
        if self.answering and len(received) - start > LONGEST_HEAD:
            self._discards, start = True, len(received)
        self._received = received[start:]
        if self._received and (self.answering or self._head_passed):
            transport.pause_reading()
            self._paused = True
        elif self._paused:
            transport.resume_reading()
            self._paused = False

    def _find_head(self, received: bytearray, start: int) -> tuple[int, int]:
        """Return where a head begins and ends; the end is 0 while more of it has to come."""
        if not self._head_begun:
            begins = len(received) - len(received[start:].lstrip(b"\r\n"))
            self._empty_lines += begins - start
            start = begins
        if start < len(received):
            if not self._head_begun:
                self._head_begun = self.has_asked = True
                self._limit(self._limits.head, self._end_late)
            if not received[start : start + 1].isalpha():
                # TLS, say: the protocol refuses its first byte.
                self._head_passed = True
                return start, start + 1
        end = received.find(_BLANK_LINE, start, start + LONGEST_HEAD) + len(_BLANK_LINE)
        if end >= len(_BLANK_LINE):
            self._empty_lines, self._head_passed = 0, True
            return start, end
        if len(received) - start + self._empty_lines > LONGEST_HEAD:
            self._end_with(_TOO_LARGE)
        return start, 0

    def eof_received(self) -> bool:
        """Answer what has come whole, although the client sends no more."""
        self._has_ended = True
        self._pass_on()
        return self._transport is not None and not self._transport.is_closing()

    def pause_writing(self) -> None:
        """Time a client that does not read its answer."""
        loop = asyncio.get_running_loop()
        self._stalled_since = loop.time()
        self._stall_timer = loop.call_later(self._limits.write_stall, self._abort)
        self.protocol.pause_writing()

    def resume_writing(self) -> None:
        """Stop the clock: the client reads."""
        self._stalled_since = None
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        self.protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """End everything that belongs to the connection."""
        for timer in (self._timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        self._received = bytearray()
        if self._transport is not None:
            self._transport = None  # it holds this connection as well
            self.protocol.connection_lost(exc)
        self.lost.set()
        self.over.set()

    def _end_late(self) -> None:
        assert self._transport is not None
        if self._head_begun and not self._transport.is_closing():
            self._end_with(_TOO_SLOW)
        else:
            self._transport.abort()

    def _end_with(self, answer: bytes) -> None:
        assert self._transport is not None
        self._transport.write(answer)
        self._close()

    def _close(self) -> None:
        assert self._transport is not None
        self._transport.close()
        self._limit(self._limits.linger, self._abort)

    def _abort(self) -> None:
        assert self._transport is not None
        self._transport.abort()

    def _limit(self, seconds: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self.lost.is_set():
            self._timer = asyncio.get_running_loop().call_later(seconds, then)
