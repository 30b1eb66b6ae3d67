"""One connection of a server: requests one after the other, each part of them in time, within limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one server; times in seconds. The defaults are for pages that few read: metrics, say."""

    connections: int = 128
    """How many there may be at once. A scraper or a probe has one or two."""

    handshake: float = 10.0
    """For a TLS handshake."""

    head: float = 10.0
    """From the first byte of a request, or from the connection's start, until its head is complete."""

    exchange: float = 120.0
    """From a request on: for its body, the answer, and for taking that."""

    taking: float = 10.0
    """For a client that takes an answer more slowly than it is made to go on with it."""

    goodbye: float = 2.0
    """For a client to take the last words and to answer the end of a TLS session."""

    keep_alive: float = 90.0
    """That a connection is kept for the next request, as by Go's clients and servers: a scraper that comes
    every minute finds it open."""

    patience: float = 1.0
    """With a client that does not send the rest of its request, or does not take its answer, while another
    one waits for a connection."""

    finish: float = 0.5
    """For answers under way once the server stops."""


_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

_LONGEST_HEAD = 32 * 1024
"""Bytes of a request before its body."""

_BLANK_LINE = b"\r\n\r\n"


class Connection(asyncio.Protocol):
    """Passes requests on to the protocol that speaks HTTP, one after the other, and keeps an eye on the time.

    That protocol gets a head when it is whole, what comes after a head once somebody answers it, and what
    comes after a body once it is answered.
    """

    def __init__(
        self,
        protocol: asyncio.Protocol,
        heard_of: Callable[[Connection], None],
        limits: Limits,
        *,
        client: str = "",
    ) -> None:
        """`heard_of` is called with this connection whenever it has been of use; `client` is whose it is."""
        self.protocol = protocol
        self.client = client
        self.over = asyncio.Event()
        """Set when it is lost, or has to end."""
        self.lost = asyncio.Event()
        self.answering = 0
        """How many requests are being answered: one, or none."""
        self.has_asked = False
        """Whether a request has come, whole or not."""
        self._heard_of = heard_of
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None
        self._idle_since = asyncio.get_running_loop().time()
        self._limits = limits
        self._request_began = True
        self._empty = 0
        """How many bytes of empty lines have come before a request."""
        self._passed_head = False
        """Whether a head has been passed on, and nobody answers it yet."""
        self._kept = bytearray()
        """What has come and is not passed on yet."""
        self._waits = False
        """Whether nothing more is read, as this is to be passed on first."""
        self._has_ended = False
        """Whether the client sends no more."""
        self._is_enough = False
        """Whether nothing that still comes is wanted: no client of ours sends so much ahead of an answer."""
        self._body = 0
        """Bytes of a body that are still to come."""
        self._has_come: Callable[[], bool] | None = None
        self._answer_began = 0.0
        self._not_taking_since: float | None = None
        self._heard = False
        """Whether a part of a request has come, and not yet all of its head."""

    @property
    def waited_for_since(self) -> float | None:
        """Since when, on the loop's clock, its client has to go on; None while it is our turn."""
        if not self.answering:
            return self._idle_since
        if self._has_come is not None and not self._has_come():
            return self._answer_began
        return self._not_taking_since

    @property
    def is_at_work(self) -> bool:
        """Whether a part of a request has come that is not answered yet, or last words are on their way."""
        if self.answering or self._heard or self._kept:
            return True
        return self._transport is not None and self._transport.is_closing()

    def begin_answer(self, has_come: Callable[[], bool], length: int | None) -> None:
        """A request's head has come; see `Connections.answering`."""
        self.answering += 1
        loop = asyncio.get_running_loop()
        self._has_come, self._answer_began = has_come, loop.time()
        self._body, self._is_enough = length or 0, length is None
        self._request_began = self._heard = self._passed_head = False
        self._limit(self._limits.exchange, self._abort)
        loop.call_soon(self._pass_on)

    def end_answer(self) -> None:
        """The answer is on its way."""
        self.answering -= 1
        self._has_come = None
        if self._body:  # it was answered without that
            self._body, self._is_enough = 0, True
        loop = asyncio.get_running_loop()
        self._idle_since = loop.time()
        self._heard_of(self)
        if self._is_enough and not self._has_ended:
            # Taken for a while, as it may be lost to who is still sending that this is the end.
            self._limit(self._limits.goodbye, self._abort)
        else:
            self._limit(self._limits.keep_alive, self._close)
            loop.call_soon(self._pass_on)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake, if there is one, is over."""
        self._transport = cast("asyncio.Transport", transport)
        self._limit(self._limits.head, self._late)
        self.protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """A part of a request has come."""
        if self._transport is not None and len(data) <= self._body and not (self._kept or self._is_enough):
            # It is what `_pass_on` would come to, without copies.
            self._body -= len(data)
            self.protocol.data_received(data)
            return
        self._kept += data
        self._pass_on()

    def _pass_on(self) -> None:
        """Pass on what may be, of what has come; the rest has to wait, and whatever is behind it."""
        if self._transport is None:
            return
        kept, self._kept = self._kept, bytearray()
        start, end = 0, len(kept)
        if self._is_enough:
            start = end
        while start < len(kept) and not self._transport.is_closing():
            if self._body:
                end = min(start + self._body, len(kept))
                self._body -= end - start
            elif self.answering or self._passed_head:
                break
            else:
                start, end = self._head_in(kept, start)
                if not end:
                    break
            self.protocol.data_received(bytes(kept[start:end]))
            start = end
        if self._transport.is_closing():
            return
        if self._has_ended and (self._body or not (self.answering or self._passed_head)):
            self._transport.close()
            return
        if self.answering and len(kept) - start > _LONGEST_HEAD:
            self._is_enough, start = True, len(kept)
        self._kept = kept[start:]
        if self._kept and (self.answering or self._passed_head):
            self._transport.pause_reading()
            self._waits = True
        elif self._waits:
            self._transport.resume_reading()
            self._waits = False

    def _head_in(self, kept: bytearray, start: int) -> tuple[int, int]:
        """Where in what has come a head begins, and where it ends; 0 if more of it has to come."""
        if not self._heard:
            # Empty lines before a request mean nothing.
            begins = len(kept) - len(kept[start:].lstrip(b"\r\n"))
            self._empty += begins - start
            start = begins
        if start < len(kept):
            self._heard = self.has_asked = True
            if not self._request_began:
                self._request_began = True
                self._limit(self._limits.head, self._late)
            if not kept[start : start + 1].isalpha():
                # TLS, say. No more has to come for that to be refused.
                self._passed_head = True
                return start, len(kept)
        end = kept.find(_BLANK_LINE, start, start + _LONGEST_HEAD) + len(_BLANK_LINE)
        if end >= len(_BLANK_LINE):
            self._empty, self._passed_head = 0, True
            return start, end
        if len(kept) - start + self._empty > _LONGEST_HEAD:
            self._end_with(_TOO_LARGE)
        return start, 0

    def eof_received(self) -> bool:
        """The client sends no more; what it has asked for is answered, if all of that is there."""
        self._has_ended = True
        self._pass_on()
        return self._transport is not None and not self._transport.is_closing()

    def pause_writing(self) -> None:
        """The client takes the answer more slowly than it is made."""
        loop = asyncio.get_running_loop()
        self._not_taking_since = loop.time()
        self._taking = loop.call_later(self._limits.taking, self._abort)
        self.protocol.pause_writing()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._not_taking_since = None
        if self._taking is not None:
            self._taking.cancel()
        self.protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end, whoever wanted it."""
        for timer in (self._timer, self._taking):
            if timer is not None:
                timer.cancel()
        self._kept = bytearray()
        if self._transport is not None:
            self._transport = None  # it holds this connection as well
            self.protocol.connection_lost(exc)
        self.lost.set()
        self.over.set()

    def _late(self) -> None:
        """The head of a request is not complete in time."""
        assert self._transport is not None
        if not self._heard:
            self._transport.abort()
            return
        self._end_with(_TOO_SLOW)

    def _end_with(self, answer: bytes) -> None:
        assert self._transport is not None
        self._transport.write(answer)
        self._close()

    def _close(self) -> None:
        assert self._transport is not None
        self._transport.close()
        self._limit(self._limits.goodbye, self._abort)

    def _abort(self) -> None:
        assert self._transport is not None
        self._transport.abort()

    def _limit(self, seconds: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self.lost.is_set():
            self._timer = asyncio.get_running_loop().call_later(seconds, then)
