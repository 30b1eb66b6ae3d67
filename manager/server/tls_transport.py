"""TLS with fair scheduling: one client's records do not keep the event loop from other clients."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from contextlib import suppress
from typing import Any, cast

from manager.server import Limits
from manager.telemetry.logs import get_logger
from manager.tls.served import is_over

_RECEIVED = memoryview(bytearray(64 * 1024))
"""The receive buffer of all connections: OpenSSL gets its content before the next read. Its size is the share
of one connection in an iteration of the event loop."""

_CLEAR = memoryview(bytearray(2 * len(_RECEIVED)))
"""The buffer for decrypted bytes: those of one iteration, and the beginning of an earlier record."""

_PORT_SHARE = 0.005
"""Seconds in an iteration of the event loop for all connections of a server together."""

_PIECE = 64 * 1024
"""Bytes of an answer that are encrypted at a time, when the client accepts them."""

_MOST_OVERHEAD = 64 * 1024
"""Bytes that a client may send in addition to its data, plus as many as it has sent data.

A handshake has some thousand such bytes, and each record 29. Decrypting a record takes the same time even if
it contains little data.
"""

_CAPITALS = range(ord("A"), ord("Z") + 1)
"""The first byte of HTTP methods. A TLS record begins with its type number, 22."""

_TEXT = b"this port is for HTTPS, and the request came over plain HTTP\n"
_IS_FOR_TLS = (
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_TEXT), _TEXT)
)

_log = get_logger("http")


class Turn:
    """The time that a server's connections may use together in one iteration of the event loop."""

    def __init__(self) -> None:
        self._ends: float | None = None

    def is_over(self) -> bool:
        """Return whether the time is used up, so that the caller must wait for the next iteration."""
        loop = asyncio.get_running_loop()
        if self._ends is not None:
            return loop.time() >= self._ends
        self._ends = loop.time() + _PORT_SHARE
        loop.call_soon(self._next)
        return False

    def _next(self) -> None:
        self._ends = None


class TlsTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """The TLS layer between a socket's transport and `protocol`, which is connected after the handshake.

    The TLS transports of asyncio and uvloop read everything that the client has sent before they return, with
    a new buffer of 256 KiB for each record. A client that sent records of one byte blocked the loop until the
    lease was lost.
    """

    def __init__(
        self, protocol: asyncio.Protocol, context: ssl.SSLContext, limits: Limits, turn: Turn
    ) -> None:
        super().__init__()
        self._turn = turn
        self._protocol = protocol
        self._limits = limits
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session: ssl.SSLObject | None = context.wrap_bio(
            self._incoming, self._outgoing, server_side=True
        )
        self._socket: asyncio.Transport = cast("asyncio.Transport", None)
        self._extra: dict[str, Any] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._established = False  # whether the handshake has ended
        self._closing = False
        self._has_ended = False  # whether the client sends no more
        self._bytes_in = self._data_in = 0  # bytes so far
        self._yielding = False  # whether other connections have their turn before the next read
        self._undecrypted = False  # whether received data then still have to be decrypted
        self._paused = False  # whether the protocol has paused reading
        self._backlog = deque[bytes | memoryview]()
        """Data to send after the client has accepted earlier data."""
        self._is_full = self._protocol_paused = False
        """Whether the socket accepts no data now, and whether `protocol` is paused because of that."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast("asyncio.Transport", transport)
        self._limit(self._limits.handshake)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the rest is read the next time
        return _RECEIVED

    def buffer_updated(self, nbytes: int) -> None:
        if nbytes == len(_RECEIVED):
            self._yield_turn()  # there may be more data
        if self._closing or self._session is None:
            return
        if not self._bytes_in and _RECEIVED[0] in _CAPITALS:
            self._closing = True
            self._socket.write(_IS_FOR_TLS)
            self._stop_sending()
            return
        self._bytes_in += nbytes
        self._incoming.write(_RECEIVED[:nbytes])
        self._decrypt()

    def _decrypt(self) -> None:
        """Decrypt the received data and pass them on, now or in the next iteration of the event loop."""
        self._undecrypted = self._turn.is_over()
        if self._undecrypted:
            self._yield_turn()
            return
        assert self._session is not None
        try:
            if not self._established:
                self._session.do_handshake()
                if is_over(self._session.getpeercert()):
                    self._fail("the client's certificate has expired")
                    return
                self._begin(self._session)
            size, ends = self._read_all(self._session)
        except ssl.SSLWantReadError:
            size, ends = 0, False
        except ssl.SSLError as error:
            self._fail(error.reason or str(error))
            return
        self._flush()
        self._data_in += size
        if self._bytes_in - self._data_in > _MOST_OVERHEAD + self._data_in:
            self._fail("too much TLS overhead")
            return
        if size:
            self._protocol.data_received(bytes(_CLEAR[:size]))
        if ends:
            self.eof_received()

    def eof_received(self) -> bool:
        if self._has_ended:
            return True
        self._has_ended = True
        if not self._established:
            return False
        goes_on = self._protocol.eof_received()
        if self._closing and not self._backlog:
            return False
        if not goes_on:
            self.close()
        return True

    def pause_writing(self) -> None:
        self._is_full = True
        if not self._protocol_paused:
            self._protocol_paused = True
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._is_full = False
        self._send()
        if not self._is_full and self._protocol_paused:
            self._protocol_paused = False
            self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._closing, self._session = True, None
        self._extra.clear()
        self._backlog.clear()
        self._protocol.connection_lost(exc)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if data and not self._closing:
            self._backlog.append(bytes(data))
            self._send()

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._send()

    def abort(self) -> None:
        self._closing = True
        self._backlog.clear()
        self._socket.abort()

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._paused = True
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._paused = False
        if not self._yielding:
            self._socket.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._extra[name] if name in self._extra else self._socket.get_extra_info(name, default)

    def _begin(self, session: ssl.SSLObject) -> None:
        self._established = True
        self._extra = {
            "ssl_object": session,
            "sslcontext": session.context,
            "peercert": session.getpeercert(),
        }
        if self._timer is not None:
            self._timer.cancel()
        self._flush()
        self._protocol.connection_made(self)

    @staticmethod
    def _read_all(session: ssl.SSLObject) -> tuple[int, bool]:
        """Read all available data; return their number of bytes, and whether the data end there."""
        size = 0
        try:
            while count := session.read(len(_CLEAR) - size, cast("bytearray", _CLEAR[size:])):
                size += cast("int", count)
        except ssl.SSLWantReadError:
            return size, False
        return size, True

    def _yield_turn(self) -> None:
        if not self._yielding:
            self._yielding = True
            self._socket.pause_reading()
            asyncio.get_running_loop().call_soon(self._resume_turn)

    def _resume_turn(self) -> None:
        self._yielding = False
        if self._undecrypted and not self._closing:
            self._decrypt()
        if not self._yielding and (self._closing or not self._paused):
            self._socket.resume_reading()

    def _send(self) -> None:
        session = self._session
        while self._backlog and session is not None and not self._is_full:
            data = memoryview(self._backlog.popleft())
            count = session.write(data[:_PIECE])
            if count < len(data):
                self._backlog.appendleft(data[count:])
            self._flush()
        if self._closing and not self._backlog and session is not None:
            self._end_session(session)

    def _end_session(self, session: ssl.SSLObject) -> None:
        with suppress(ssl.SSLError):  # the client has not confirmed the end yet
            session.unwrap()
        self._flush()
        self._stop_sending()

    def _stop_sending(self) -> None:
        """Stop sending, and give the client a moment to read the sent data."""
        self._session = None
        if self._has_ended:
            self._socket.close()
            return
        # Closing with unread data would cause a reset, which can overtake the answer.
        with suppress(OSError):  # the client is gone
            self._socket.write_eof()
        self._socket.resume_reading()
        self._limit(self._limits.linger)

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._socket.write(self._outgoing.read())

    def _fail(self, reason: str) -> None:
        """Close the connection after a TLS error, for example because the client is a port scanner."""
        _log.debug("a TLS connection failed", error=reason)
        self._flush()  # the reason, as a TLS alert
        self._closing, self._session = True, None
        self._socket.close()

    def _limit(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)
