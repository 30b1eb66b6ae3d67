"""The HTTP/1.1 server: turns what comes over a connection into an `ApiRequest`, and sends its answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket
import struct
from typing import TYPE_CHECKING, Any

from aiohttp import web

from devcluster.api.exchange import ApiRequest, ApiResponse, ConnectionCut, Handler
from devcluster.errors import StatusError, internal_error, request_entity_too_large
from devcluster.http.compression import compress, is_worth_compressing
from devcluster.http.reading import lower_headers, split_target, subject_of

if TYPE_CHECKING:
    import ssl

__all__ = ["BODY_LIMIT", "HttpFront"]

_log = logging.getLogger(__name__)

BODY_LIMIT = 3 * 1024 * 1024
"""Bytes of a request's body, as the real server has it."""
_HEADER_LIMIT = 64 * 1024
"""Bytes of the request line, and of each header: room for long selectors and large tokens."""
_BODY_TIMEOUT = 60.0
"""Seconds a client may take to send a body."""
_IDLE_TIMEOUT = 180.0
"""Seconds a connection may be without a request, a half-sent one included."""
_HANDSHAKE_TIMEOUT = 10.0
_BACKLOG = 512
_NO_LINGER = struct.pack("ii", 1, 0)
_STOP_TIMEOUT = 2.0
"""Seconds that requests under way have when the server stops; watches are ended at once."""


class HttpFront:
    """Serves one address, until stopped.

    `handle` gives each answer. What it raises becomes a 500, except ConnectionCut: that drops the connection
    without another byte.
    """

    def __init__(self, handle: Handler, *, rng: random.Random | None = None) -> None:
        self._handle = handle
        self._rng = rng or random.Random()
        self._streams: set[asyncio.Task[Any]] = set()
        self._listener: asyncio.Server | None = None
        self._connections: web.Server | None = None
        self._stopping = False

    async def start(self, listener: socket.socket, context: ssl.SSLContext | None = None) -> None:
        """Accept connections on a socket that listens, which is closed in the end; without TLS if so told."""
        loop = asyncio.get_running_loop()

        def make_request(
            message: Any, payload: Any, protocol: Any, writer: Any, task: Any
        ) -> web.BaseRequest:
            return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=BODY_LIMIT)

        self._connections = web.Server(
            self._answer,
            request_factory=make_request,
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=_IDLE_TIMEOUT,
            max_line_size=_HEADER_LIMIT,
            max_field_size=_HEADER_LIMIT,
        )
        self._listener = await loop.create_server(
            self._connections,
            sock=listener,
            ssl=context,
            ssl_handshake_timeout=_HANDSHAKE_TIMEOUT if context else None,
            backlog=_BACKLOG,
        )

    async def stop(self) -> None:
        """Accept nothing more, end the watches as if their time were over, and let the rest finish."""
        self._stopping = True
        if self._listener is not None:
            self._listener.close()
        for stream in list(self._streams):
            stream.cancel()
        if self._connections is not None:
            self._connections.pre_shutdown()
            await self._connections.shutdown(_STOP_TIMEOUT)
        if self._listener is not None:
            await self._listener.wait_closed()

    def cut_connections(self) -> int:
        """Reset every connection, in the middle of whatever it carries; returns how many there were."""
        transports = [each.transport for each in self._connections.connections] if self._connections else []
        cut = [transport for transport in transports if transport is not None]
        for transport in cut:
            _reset(transport)
        return len(cut)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = lower_headers(request.headers)
        try:
            answer = await self._answer_to(request, headers)
            response = await self._send(request, headers, answer)
        except ConnectionCut:
            if request.transport is not None:
                _reset(request.transport)
            # Nobody will see it: aiohttp finds the connection gone.
            return web.Response()
        if "upgrade" in headers:
            # What follows such a request was meant for the other protocol.
            response.force_close()
        return response

    async def _answer_to(self, request: web.BaseRequest, headers: dict[str, str]) -> ApiResponse:
        path, query = split_target(request.raw_path)
        try:
            body = await _read_body(request) if request.body_exists else b""
            return await self._handle(
                ApiRequest(
                    method=request.method,
                    path=path,
                    query=query,
                    headers=headers,
                    body=body,
                    client_certificate=subject_of(request.transport),
                )
            )
        except StatusError as error:
            return ApiResponse.failure(error)
        except ConnectionCut:
            raise
        except Exception as error:  # noqa: BLE001 -- whatever it is, the client gets an answer
            _log.exception("%s %s failed", request.method, path)
            return ApiResponse.failure(internal_error(f"{type(error).__name__}: {error}"))

    async def _send(
        self, request: web.BaseRequest, headers: dict[str, str], answer: ApiResponse
    ) -> web.StreamResponse:
        outgoing = answer.headers
        outgoing["Audit-Id"] = headers.get("audit-id") or self._audit_id()
        outgoing["Cache-Control"] = "no-cache, private"
        outgoing["Content-Type"] = answer.content_type
        if answer.stream is not None:
            response = web.StreamResponse(status=answer.status, headers=_with_warnings(answer))
            await self._send_stream(request, response, answer.stream)
            return response
        body = answer.body
        if is_worth_compressing(body, headers.get("accept-encoding", "")):
            outgoing["Content-Encoding"] = "gzip"
            outgoing["Vary"] = "Accept-Encoding"
            body = await compress(body)
        return web.Response(status=answer.status, headers=_with_warnings(answer), body=body)

    async def _send_stream(self, request: web.BaseRequest, response: web.StreamResponse, stream: Any) -> None:
        """Send chunk by chunk until the stream ends, the client has gone or the server stops."""
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            if request.version >= (1, 1):
                response.enable_chunked_encoding()
            await response.prepare(request)
            if not self._stopping:
                async for chunk in stream:
                    await response.write(chunk)
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            task.uncancel()
        except ConnectionCut:
            raise
        except ConnectionError:
            pass  # the client went away while a chunk was on its way
        except Exception:  # noqa: BLE001 -- the same, of a stream
            # The status line is out, so all that can still be said is that the answer is not complete.
            _log.exception("%s failed in the middle of its stream", request.raw_path)
            raise ConnectionCut from None
        finally:
            self._streams.discard(task)
            with contextlib.suppress(asyncio.CancelledError):
                await stream.aclose()
        with contextlib.suppress(ConnectionError):
            await response.write_eof()

    def _audit_id(self) -> str:
        bits = f"{self._rng.getrandbits(128):032x}"
        return f"{bits[:8]}-{bits[8:12]}-{bits[12:16]}-{bits[16:20]}-{bits[20:]}"


def _reset(transport: asyncio.Transport) -> None:
    """Drop a connection as a network does that fails: what was not sent is lost, the client gets a RST."""
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()


async def _read_body(request: web.BaseRequest) -> bytes:
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    try:
        async with asyncio.timeout(_BODY_TIMEOUT):
            return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise request_entity_too_large(f"Request entity too large: limit is {BODY_LIMIT}") from None
    except TimeoutError:
        raise StatusError(408, "", "The request's body took too long to arrive") from None


def _with_warnings(answer: ApiResponse) -> Any:
    if not answer.warnings:
        return answer.headers
    headers: list[tuple[str, str]] = list(answer.headers.items())
    headers += [("Warning", f'299 - "{_quoted(warning)}"') for warning in answer.warnings]
    return headers


def _quoted(warning: str) -> str:
    """As it stands between the quotes of a Warning header."""
    line = "".join(char if char.isprintable() else " " for char in warning)
    return line.replace("\\", "\\\\").replace('"', '\\"')
