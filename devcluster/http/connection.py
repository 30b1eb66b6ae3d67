"""An HTTP connection, which answers its requests one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
import struct
import time
import uuid
from collections import deque
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, cast

import httptools

from devcluster.errors import StatusError, internal_error, request_entity_too_large
from devcluster.exchange import ApiRequest, ApiResponse, ConnectionCut, Handler
from devcluster.http.compression import compress, is_worth_compressing
from devcluster.http.reading import add_header, split_target, subject_of
from devcluster.http.websocket import ServerSocket, handshake

__all__ = ["BODY_LIMIT", "Connection"]

_log = logging.getLogger(__name__)

BODY_LIMIT = 3 * 1024 * 1024
"""The real server's limit of a request's body, in bytes."""
_HEAD_LIMIT = 1024 * 1024
"""The real server's limit of the request line with all headers, in bytes."""
_MOST_RECEIVED = 8 * BODY_LIMIT
"""The limit of received bytes, chunk headers included, after which the server stops waiting for the end."""
_MOST_WAITING = 16
"""The number of queued requests at which the server stops reading."""
_REQUEST_TIMEOUT = 60.0
"""Seconds that a request may take to arrive."""
_IDLE_TIMEOUT = 180.0
"""Seconds without a request after which a connection is closed."""
_WARNINGS_LIMIT = 4096
"""The characters of all warnings of a response, above which each is cut to `_WARNING_LIMIT`."""
_WARNING_LIMIT = 256
_STALL_TIMEOUT = 180.0
"""Seconds that a client may leave sent data unread."""
_BAD_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")
_NO_LINGER = struct.pack("ii", 1, 0)
_REASONS = {status.value: status.phrase for status in HTTPStatus}
_NO_BODY = frozenset({204, 304})


class _Incoming:
    """A request while it arrives."""

    __slots__ = ("body", "headers", "keep_alive", "method", "received", "since", "size", "target", "version")

    def __init__(self, since: float) -> None:
        self.since = since
        self.method = ""
        """Empty until all headers are there."""
        self.version = ""
        self.target = b""
        self.headers: dict[str, str] = {}
        self.received = 0
        """The bytes received for the request, without those received together with the previous one."""
        self.body: list[bytes] = []
        self.size = 0
        self.keep_alive = True


class Connection(asyncio.Protocol):
    """A connection that reads requests, and answers them in order.

    An exception of the handler becomes a 500, except ConnectionCut, which drops the connection without
    another byte.
    """

    def __init__(self, handle: Handler, connections: set[Connection]) -> None:
        """Set up a connection; it is in `connections` while it is open."""
        self._handle = handle
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._certificate: dict[str, list[str]] | None = None
        self._incoming: _Incoming | None = None
        self._waiting: deque[_Incoming] = deque()
        self._task: asyncio.Task[None] | None = None
        self._streaming = False
        self._stopping = False
        self._reading = True
        self._socket: ServerSocket | None = None
        """The WebSocket, once one was accepted."""
        self._early = b""
        """Bytes that the client sent before the WebSocket was accepted."""
        self._writable: asyncio.Future[None] | None = None
        self._stalled = 0.0
        """Since when it cannot be written to, if it cannot."""
        self._last = time.monotonic()

    # Methods that the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set up the open connection."""
        self._transport = cast("asyncio.Transport", transport)
        self._certificate = subject_of(transport)
        self._connections.add(self)

    def connection_lost(self, _error: Exception | None) -> None:
        """End the work for a client that has gone."""
        self._transport = None
        self._connections.discard(self)
        self._waiting.clear()
        self.resume_writing()
        if self._socket is not None:
            self._socket.lost()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Read on."""
        if self._socket is not None:
            self._socket.feed(data)
            return
        if not self._reading:
            self._early = (self._early + data)[:_HEAD_LIMIT]
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # The request gets a normal answer; data after it belongs to the other protocol.
            self._reading = False
            self._early = data[upgrade.args[0] :]
        except httptools.HttpParserError:
            self._refuse(400)
        else:
            incoming = self._incoming
            if incoming is not None:
                incoming.received += len(data)
                if not incoming.method and incoming.received > _HEAD_LIMIT:
                    self._refuse(431)
                elif incoming.received > _MOST_RECEIVED:
                    self._refuse(413)

    def pause_writing(self) -> None:
        """Wait for a slow client."""
        self._writable = asyncio.get_running_loop().create_future()
        self._stalled = time.monotonic()

    def resume_writing(self) -> None:
        """Continue after a slow client."""
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    # Methods that the parser calls.

    def on_message_begin(self) -> None:
        """Start a request."""
        self._incoming = _Incoming(time.monotonic())

    def on_url(self, part: bytes) -> None:
        """Add a part of the request's target."""
        incoming = self._incoming
        assert incoming is not None
        incoming.target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header."""
        incoming = self._incoming
        assert incoming is not None
        if incoming.method:
            return  # trailers must not change the user or the meaning of the request
        add_header(incoming.headers, name.decode("latin-1").lower(), value.decode("utf-8", "replace"))

    def on_headers_complete(self) -> None:
        """Take the request line and the headers; the body follows."""
        incoming = self._incoming
        assert incoming is not None
        if _BAD_ESCAPE.search(incoming.target.partition(b"?")[0]):
            raise ValueError("not the path of a URL")
        incoming.method = self._parser.get_method().decode("latin-1")
        incoming.version = self._parser.get_http_version()
        incoming.keep_alive = self._parser.should_keep_alive()
        if incoming.headers.get("expect", "").lower() == "100-continue" and self._task is None:
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, part: bytes) -> None:
        """Add a part of the body."""
        incoming = self._incoming
        assert incoming is not None
        incoming.size += len(part)
        if incoming.size <= BODY_LIMIT:
            incoming.body.append(part)
        else:
            incoming.body.clear()

    def on_message_complete(self) -> None:
        """Queue the complete request, and start the work on it."""
        incoming, self._incoming = self._incoming, None
        assert incoming is not None
        self._waiting.append(incoming)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())
        elif len(self._waiting) == _MOST_WAITING and self._transport is not None:
            self._transport.pause_reading()

    # Methods that the front calls.

    def check(self, now: float) -> None:
        """Close it if nothing has come, or nothing was taken, for too long."""
        if self._writable is not None and now - self._stalled > _STALL_TIMEOUT:
            self.reset()
        elif self._incoming is not None:
            if now - self._incoming.since > _REQUEST_TIMEOUT:
                self._refuse(408)
        elif self._task is None and now - self._last > _IDLE_TIMEOUT:
            self._close()

    def stop(self) -> asyncio.Task[None] | None:
        """End a stream as if it were over, and close once what is under way is answered: what to wait for."""
        self._stopping = True
        if self._task is None:
            self._close()
        elif self._streaming:
            self._task.cancel()
        return self._task

    def reset(self) -> None:
        """Reset the connection as a network failure does: unsent data is lost, the client gets a RST."""
        if self._transport is not None:
            connection = self._transport.get_extra_info("socket")
            if connection is not None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self._transport.abort()

    def abandon(self) -> None:
        """Wait no longer for the client to agree that it is over; what was sent still arrives."""
        if self._transport is not None:
            self._transport.abort()

    # Responses.

    async def _work(self) -> None:
        """Answer what waits, and what comes meanwhile."""
        try:
            while self._waiting and self._transport is not None:
                incoming = self._waiting.popleft()
                if len(self._waiting) == _MOST_WAITING - 1:
                    self._transport.resume_reading()
                await self._answer(incoming)
                if not incoming.keep_alive or not self._reading or self._stopping:
                    self._close()
                    return
        except ConnectionCut:
            self.reset()
        except ConnectionError:
            self._close()
        finally:
            self._task = None
            self._last = time.monotonic()

    async def _answer(self, incoming: _Incoming) -> None:
        path, query = split_target(incoming.target.decode("utf-8", "replace"))
        headers = incoming.headers
        try:
            _check_size(incoming)
            answer = await self._handle(
                ApiRequest(
                    method=incoming.method,
                    path=path,
                    query=query,
                    headers=headers,
                    body=b"".join(incoming.body),
                    client_certificate=self._certificate,
                )
            )
        except StatusError as error:
            answer = ApiResponse.failure(error)
        except ConnectionCut:
            raise
        except Exception as error:  # noqa: BLE001 -- the client gets a response after any error
            _log.exception("%s %s failed", incoming.method, path)
            answer = ApiResponse.failure(internal_error(f"{type(error).__name__}: {error}"))
        answer.headers.setdefault("Audit-Id", headers.get("audit-id") or str(uuid.uuid4()))
        if answer.websocket is not None:
            await self._upgrade(answer, headers["sec-websocket-key"], answer.websocket)
            return
        if answer.stream is not None:
            await self._stream(incoming, answer, answer.stream)
            return
        body = answer.body
        if is_worth_compressing(body, headers.get("accept-encoding", "")):
            answer.headers["Content-Encoding"] = "gzip"
            answer.headers["Vary"] = "Accept-Encoding"
            body = await compress(body)
        if answer.status not in _NO_BODY:
            answer.headers["Content-Length"] = str(len(body))
        if incoming.method == "HEAD":
            body = b""
        self._write(self._head(incoming, answer) + body)
        if self._writable is not None:
            await self._writable

    async def _stream(self, incoming: _Incoming, answer: ApiResponse, stream: Any) -> None:
        """Send chunk by chunk until the stream ends, the client has gone or the server stops."""
        chunked = incoming.version == "1.1"
        if chunked:
            answer.headers["Transfer-Encoding"] = "chunked"
        else:
            incoming.keep_alive = False
        self._streaming = True
        try:
            self._write(self._head(incoming, answer))
            if not self._stopping:
                async for part in stream:
                    if part:
                        self._write(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
                    if self._writable is not None:
                        await self._writable
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._stopping or self._transport is None or task is None:
                raise
            task.uncancel()
        except (ConnectionCut, ConnectionError):
            raise
        except Exception:  # noqa: BLE001 -- the same, of a stream
            # The status line has been sent, so the server can only leave the response incomplete.
            _log.exception("%r failed in the middle of its stream", incoming.target)
            raise ConnectionCut from None
        finally:
            self._streaming = False
            with contextlib.suppress(asyncio.CancelledError):
                await stream.aclose()
        if chunked:
            self._write(b"0\r\n\r\n")

    async def _upgrade(self, answer: ApiResponse, key: str, serve: Any) -> None:
        """Go on as a WebSocket, until it is served, the client has gone or the server stops."""
        socket = ServerSocket(self._write, lambda: self._writable, self._pause)
        self._write(handshake(answer, key))
        self._streaming, self._socket = True, socket
        early, self._early = self._early, b""
        socket.feed(early)
        try:
            if not self._stopping:
                await serve(socket)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._stopping or self._transport is None or task is None:
                raise
            task.uncancel()
        except (ConnectionCut, ConnectionError):
            raise
        except Exception:  # noqa: BLE001 -- as of a stream
            _log.exception("a WebSocket failed")
            raise ConnectionCut from None
        finally:
            self._streaming = False
            with contextlib.suppress(ConnectionError):
                socket.close()

    def _pause(self, pause: bool) -> None:
        if self._transport is not None:
            (self._transport.pause_reading if pause else self._transport.resume_reading)()

    def _head(self, incoming: _Incoming, answer: ApiResponse) -> bytes:
        lines = [
            f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, '')}",
            f"Content-Type: {answer.content_type}",
            "Cache-Control: no-cache, private",
            f"Date: {_date()}",
            *(f"{name}: {value}" for name, value in answer.headers.items()),
            *(f'Warning: 299 - "{_quoted(warning)}"' for warning in _fitting(answer.warnings)),
        ]
        if not incoming.keep_alive or not self._reading or self._stopping:
            lines.append("Connection: close")
        elif incoming.version == "1.0":
            lines.append("Connection: keep-alive")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "replace")

    def _write(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError
        self._transport.write(data)

    def _refuse(self, status: int) -> None:
        """Answer what is no request, and close."""
        self._reading = False
        self._incoming = None
        if self._task is None and self._transport is not None:
            text = f"{status} {_REASONS[status]}"
            head = "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
            self._transport.write(f"HTTP/1.1 {text}\r\n{head}{text}".encode())
            self._close()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _check_size(incoming: _Incoming) -> None:
    if incoming.size > BODY_LIMIT:
        raise request_entity_too_large(f"Request entity too large: limit is {BODY_LIMIT}")


_dated = (0, "")


def _date() -> str:
    """Return the time for a Date header."""
    global _dated  # noqa: PLW0603 -- formatted once per second
    now = int(time.time())
    if _dated[0] != now:
        _dated = (now, formatdate(now, usegmt=True))
    return _dated[1]


def _fitting(warnings: list[str]) -> list[str]:
    """Return the warnings to send; if too long in total, each is shortened and the last are dropped."""
    fitting: list[str] = []
    size, cutting = 0, False
    for warning in warnings:
        if cutting and size >= _WARNINGS_LIMIT:
            break
        fitting.append(warning)
        size += len(warning)
        if cutting or size > _WARNINGS_LIMIT:
            cutting = True
            fitting = [each[:_WARNING_LIMIT] for each in fitting]
            size = sum(map(len, fitting))
    return fitting


def _quoted(warning: str) -> str:
    """Escape a warning for the quoted part of a Warning header."""
    line = "".join(char if char.isprintable() else " " for char in warning)
    return line.replace("\\", "\\\\").replace('"', '\\"')
