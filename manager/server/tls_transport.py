"""TLS in fair turns: the records of one client do not keep the event loop from other clients."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, cast

from manager.server.connection import Limits
from manager.telemetry.logs import get_logger
from manager.tls.served import is_over

_RECEIVED = memoryview(bytearray(64 * 1024))
"""Where all connections receive: what is in it goes on to OpenSSL before anything else comes. It is as much
as one of them has in a turn of the loop, before others have theirs."""

_SHARE = 0.005
"""Seconds of a turn of the loop for all connections of a server together, and one more part of what came."""

_CLEAR = memoryview(bytearray(2 * len(_RECEIVED)))
"""Where it is decrypted: one turn, and what was there of a record before."""

_PIECE = 64 * 1024
"""Bytes of an answer that are encrypted at a time, as the client takes them."""

_FOR_NOTHING = 64 * 1024
"""Bytes that a client may send besides data, and as many more as there are data.

A handshake takes some thousand, and each record 29. To decrypt one takes as long however little is in it.
"""

_CAPITALS = range(ord("A"), ord("Z") + 1)
"""How methods of HTTP begin. A TLS record begins with the number of its sort, 22."""

_TEXT = b"this port is for HTTPS, and the request came over plain HTTP\n"
_IS_FOR_TLS = (
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_TEXT), _TEXT)
)

_log = get_logger("http")


class Turn:
    """The share that the connections of a server have of one turn of the event loop."""

    def __init__(self) -> None:
        self._ends: float | None = None

    def is_over(self) -> bool:
        """Return whether the rest of the work waits for the next turn."""
        loop = asyncio.get_running_loop()
        if self._ends is not None:
            return loop.time() >= self._ends
        self._ends = loop.time() + _SHARE
        loop.call_soon(self._next)
        return False

    def _next(self) -> None:
        self._ends = None


class TlsTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """The protocol of a socket's transport, and the transport of `protocol`.

    That one has its connection made when the handshake is over, and lost in any case.

    asyncio's and uvloop's own read all that the client has sent before they return, with a new buffer of
    256 KiB for each record: one that sends a byte in each held the loop until the lease was lost.
    """

    def __init__(
        self, protocol: asyncio.Protocol, context: ssl.SSLContext, limits: Limits, turn: Turn
    ) -> None:
        """`turn` is shared by all connections of a server."""
        super().__init__()
        self._turn = turn
        self._protocol = protocol
        self._limits = limits
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session: ssl.SSLObject | None = context.wrap_bio(
            self._incoming, self._outgoing, server_side=True
        )
        self._socket: asyncio.Transport = cast("asyncio.Transport", None)
        self._about: dict[str, Any] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_made = False
        """Whether the handshake is over."""
        self._closing = False
        self._has_ended = False
        """Whether the client sends no more."""
        self._came = self._was_data = 0
        """Bytes so far."""
        self._rests = False
        """Whether others have their turn before more of it comes."""
        self._has_more = False
        """Whether what has come is still to be decrypted then."""
        self._waits = False
        """Whether nothing is wanted for now."""
        self._backlog = deque[bytes | memoryview]()
        """What is to be sent, once the client has taken what is before it."""
        self._is_full = self._is_told = False
        """Whether the socket takes nothing for now, and whether `protocol` knows."""

    # Callbacks of the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the handshake."""
        self._socket = cast("asyncio.Transport", transport)
        self._limit(self._limits.handshake)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - what is more comes the next time
        """Return where the next part goes."""
        return _RECEIVED

    def buffer_updated(self, nbytes: int) -> None:
        """Take up a part that has come."""
        if nbytes == len(_RECEIVED):
            self._rest()  # there may be more
        if self._closing or self._session is None:
            return
        if not self._came and _RECEIVED[0] in _CAPITALS:
            self._closing = True
            self._socket.write(_IS_FOR_TLS)
            self._part()
            return
        self._came += nbytes
        self._incoming.write(_RECEIVED[:nbytes])
        self._take()

    def _take(self) -> None:
        """Decrypt what has come, and pass it on, now or in the next turn."""
        self._has_more = self._turn.is_over()
        if self._has_more:
            self._rest()
            return
        assert self._session is not None
        try:
            if not self._is_made:
                self._session.do_handshake()
                if is_over(self._session.getpeercert()):
                    self._give_up("the client's certificate has expired")
                    return
                self._begin(self._session)
            size, ends = self._decrypted(self._session)
        except ssl.SSLWantReadError:
            size, ends = 0, False
        except ssl.SSLError as error:
            self._give_up(error.reason or str(error))
            return
        self._flush()
        self._was_data += size
        if self._came - self._was_data > _FOR_NOTHING + self._was_data:
            self._give_up("too much besides data")
            return
        if size:
            self._protocol.data_received(bytes(_CLEAR[:size]))
        if ends:
            self.eof_received()

    def eof_received(self) -> bool:
        """Note that the client sends no more."""
        if self._has_ended:
            return True
        self._has_ended = True
        if not self._is_made:
            return False
        goes_on = self._protocol.eof_received()
        if self._closing and not self._backlog:
            return False
        if not goes_on:
            self.close()
        return True

    def pause_writing(self) -> None:
        """Wait: the client reads more slowly than the protocol writes."""
        self._is_full = True
        if not self._is_told:
            self._is_told = True
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Send on: the client has caught up."""
        self._is_full = False
        self._send()
        if not self._is_full and self._is_told:
            self._is_told = False
            self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the session and the protocol's connection."""
        if self._timer is not None:
            self._timer.cancel()
        self._closing, self._session = True, None
        self._about.clear()
        self._backlog.clear()
        self._protocol.connection_lost(exc)

    # Methods for the protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send it, as any transport."""
        if data and not self._closing:
            self._backlog.append(bytes(data))
            self._send()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send them together."""
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """Return False: TLS ends both directions at once."""
        return False

    def close(self) -> None:
        """Send what is left, and the end of the session."""
        if self._closing:
            return
        self._closing = True
        self._send()

    def abort(self) -> None:
        """End it at once."""
        self._closing = True
        self._backlog.clear()
        self._socket.abort()

    def is_closing(self) -> bool:
        """Return whether it has ended, or will soon."""
        return self._closing

    def pause_reading(self) -> None:
        """Have no more come for now."""
        self._waits = True
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Have more come."""
        self._waits = False
        if not self._rests:
            self._socket.resume_reading()

    def is_reading(self) -> bool:
        """Return whether more may come."""
        return not self._waits

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return facts about the session, its other end, and the socket."""
        return self._about[name] if name in self._about else self._socket.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        """Return how many bytes are left to send."""
        return self._socket.get_write_buffer_size() + sum(map(len, self._backlog))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set from how many bytes on the protocol has to wait."""
        self._socket.set_write_buffer_limits(high, low)

    def _begin(self, session: ssl.SSLObject) -> None:
        self._is_made = True
        self._about = {
            "ssl_object": session,
            "sslcontext": session.context,
            "peercert": session.getpeercert(),
        }
        if self._timer is not None:
            self._timer.cancel()
        self._flush()
        self._protocol.connection_made(self)

    @staticmethod
    def _decrypted(session: ssl.SSLObject) -> tuple[int, bool]:
        """Return how many bytes of data are there now, and whether they are the last."""
        size = 0
        try:
            while count := session.read(len(_CLEAR) - size, cast("bytearray", _CLEAR[size:])):
                size += cast("int", count)
        except ssl.SSLWantReadError:
            return size, False
        return size, True

    def _rest(self) -> None:
        """Let others have their turn."""
        if not self._rests:
            self._rests = True
            self._socket.pause_reading()
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._rests = False
        if self._has_more and not self._closing:
            self._take()
        if not self._rests and (self._closing or not self._waits):
            self._socket.resume_reading()

    def _send(self) -> None:
        """Encrypt what the client can take now."""
        session = self._session
        while self._backlog and session is not None and not self._is_full:
            data = memoryview(self._backlog.popleft())
            count = session.write(data[:_PIECE])
            if count < len(data):
                self._backlog.appendleft(data[count:])
            self._flush()
        if self._closing and not self._backlog and session is not None:
            self._say_goodbye(session)

    def _say_goodbye(self, session: ssl.SSLObject) -> None:
        with suppress(ssl.SSLError):  # the client has not said so yet
            session.unwrap()
        self._flush()
        self._part()

    def _part(self) -> None:
        """Send no more, and give the client a moment to read what was sent."""
        self._session = None
        if self._has_ended:
            self._socket.close()
            return
        # To close it with something unread would be a reset, which can overtake the answer.
        with suppress(OSError):  # the client is gone
            self._socket.write_eof()
        self._socket.resume_reading()
        self._limit(self._limits.linger)

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._socket.write(self._outgoing.read())

    def _give_up(self, reason: str) -> None:
        """End a connection by the fault of its client: a port scan, a client without trust, an attack."""
        _log.debug("a connection failed", error=reason)
        self._flush()  # what is wrong, in TLS's own words
        self._closing, self._session = True, None
        self._socket.close()

    def _limit(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)
