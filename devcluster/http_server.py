"""HTTPS server: aiohttp.web as the transport of `ApiRequest` and `ApiResponse`."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
import re
import socket
import ssl
import struct
import uuid
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from aiohttp import HttpVersion11, WSMsgType, web
from aiohttp.http_exceptions import LineTooLong
from multidict import CIMultiDict

from devcluster.errors import StatusError, internal_error, request_entity_too_large
from devcluster.http_call import ApiRequest, ApiResponse, ConnectionCut, Handler, WebSocket

_log = logging.getLogger(__name__)

BODY_LIMIT = 3 * 1024 * 1024
"""The real server's limit of a request's body, in bytes."""
_LONGEST_LINE = 1024 * 1024
"""The maximum bytes of a request line; in the real server, of all lines of a head."""
_LONGEST_HEADER = 128 * 1024
"""The maximum bytes of a header. A head has at most 128 headers, the default of aiohttp."""
_MOST_PARAMETERS = 1000
_BODY_TIMEOUT = 60.0
"""Seconds within which a body must arrive."""
_IDLE_TIMEOUT = 180.0
"""Seconds after which a connection is closed that has not sent a complete request head."""
_STALL_TIMEOUT = 180.0
"""Seconds for which a client may leave sent data unread."""
_HANDSHAKE_TIMEOUT = 10.0
_CLOSE_TIMEOUT = 2.0
"""Seconds for a client to confirm the end of a WebSocket."""
_STOP_TIMEOUT = 2.0
"""Seconds that running requests have to finish when the server stops; watches end at once."""
_CHECK_INTERVAL = 10.0
"""Seconds between two checks for clients that read nothing."""
_BACKLOG = 512
_COMPRESSED_FROM = 128 * 1024
"""Bytes above which a body is compressed for clients that accept gzip, as in the real server."""
_PIECE = 256 * 1024
"""Bytes of a response that the server encrypts before other requests run."""
_LONGEST_MESSAGE = 4 * 1024 * 1024
"""The maximum bytes of a message on a WebSocket; a longer message ends the connection."""
_WARNINGS_LIMIT = 4096
"""The characters of all warnings of a response, above which each is cut to `_WARNING_LIMIT`."""
_WARNING_LIMIT = 256
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_NO_LINGER = struct.pack("ii", 1, 0)


class HttpServer:
    """HTTP/1.1 server on one socket.

    A StatusError of the handler becomes its Status. `ConnectionCut` cuts the connection without another
    byte. Any other exception becomes a 500.
    """

    def __init__(self, handle: Handler) -> None:
        self._handle = handle
        self._server = web.Server(self._answer, handler_cancellation=True)
        self._listener: asyncio.Server | None = None
        self._answering: set[asyncio.Task[Any]] = set()
        self._streaming: set[asyncio.Task[Any]] = set()
        """Tasks of streams, which end when the server stops."""
        self._stopping = False
        self._checking: asyncio.TimerHandle | None = None

    async def start(self, listener: socket.socket, context: ssl.SSLContext | None = None) -> None:
        """Accept connections on a listening socket, which `stop` closes; None as `context` means no TLS."""
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {
            "loop": loop,
            "access_log": None,
            "auto_decompress": False,
            "keepalive_timeout": _IDLE_TIMEOUT,
            "lingering_time": _STOP_TIMEOUT,
            "max_line_size": _LONGEST_LINE,
            "max_field_size": _LONGEST_HEADER,
        }
        self._listener = await loop.create_server(
            lambda: _Connection(self._server, **options),
            sock=listener,
            ssl=context,
            ssl_handshake_timeout=_HANDSHAKE_TIMEOUT if context else None,
            backlog=_BACKLOG,
        )
        self._check()

    async def stop(self) -> None:
        """Stop: refuse new connections, end the watches as if they timed out, and finish other requests."""
        self._stopping = True
        if self._checking is not None:
            self._checking.cancel()
        if self._listener is not None:
            self._listener.close()
        for task in self._streaming:
            task.cancel()
        if self._answering:
            await asyncio.wait(self._answering, timeout=_STOP_TIMEOUT)
        # Unfinished requests must not outlive the server.
        for task in self._answering:
            task.cancel()
        transports = self._transports()
        self._server.pre_shutdown()
        await self._server.shutdown(_STOP_TIMEOUT)
        for transport in transports:
            # In Python 3.11.2, a TLS transport that was closed twice has lost its protocol.
            with contextlib.suppress(AttributeError):
                transport.abort()
        if self._listener is not None:
            await self._listener.wait_closed()

    def cut_connections(self) -> int:
        """Reset all connections, even in the middle of a response; return their number."""
        transports = self._transports()
        for transport in transports:
            _reset(transport)
        return len(transports)

    def _check(self) -> None:
        """Reset the connections of clients that read nothing; a periodic check is cheaper than timers."""
        loop = asyncio.get_running_loop()
        for each in self._server.connections:
            if isinstance(each, _Connection) and loop.time() - each.stalled_since > _STALL_TIMEOUT:
                _reset(each.transport)
        self._checking = loop.call_later(_CHECK_INTERVAL, self._check)

    def _transports(self) -> list[asyncio.Transport]:
        return [each.transport for each in self._server.connections if each.transport is not None]

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        try:
            return await self._respond(request, task)
        except (ConnectionError, web.HTTPException):
            raise
        except ConnectionCut:
            pass
        except Exception:  # noqa: BLE001 -- after any error the connection is cut
            # The status line is already sent, so the server can only cut the response.
            _log.exception("request %s %r failed during its response", request.method, request.raw_path)
        finally:
            self._answering.discard(task)
        _reset(request.transport)
        raise ConnectionResetError

    async def _respond(self, request: web.BaseRequest, task: asyncio.Task[Any]) -> web.StreamResponse:
        target = request.raw_path
        if not target.isascii():
            target = target.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        if _BAD_ESCAPE.search(target.partition("?")[0]):
            return _refusal(400)
        path, query = _split_target(target)
        headers = _headers_of(request.raw_headers)
        try:
            try:
                body = await _read_body(request) if request.can_read_body else b""
            except TimeoutError:
                return _refusal(408)
            connection = request.protocol
            assert isinstance(connection, _Connection)
            answer = await self._handle(
                ApiRequest(
                    method=request.method,
                    path=path,
                    query=query,
                    headers=headers,
                    body=body,
                    client_certificate=connection.subject,
                )
            )
        except StatusError as error:
            answer = ApiResponse.failure(error)
        except ConnectionCut:
            raise
        except Exception as error:  # noqa: BLE001 -- the client gets a response after any error
            _log.exception("request %s %s failed", request.method, path)
            answer = ApiResponse.failure(internal_error(f"{type(error).__name__}: {error}"))
        answer.headers.setdefault("Audit-Id", headers.get("audit-id") or str(uuid.uuid4()))
        if answer.websocket is not None:
            return await self._serve_socket(request, task, answer, answer.websocket)
        if answer.stream is not None:
            return await self._stream(request, task, answer, answer.stream)
        content = answer.body
        accepted = [token.strip() for token in headers.get("accept-encoding", "").split(",")]
        if len(content) > _COMPRESSED_FROM and "gzip" in accepted:
            answer.headers["Content-Encoding"] = "gzip"
            answer.headers["Vary"] = "Accept-Encoding"
            content = await asyncio.to_thread(_gzip, content)  # zlib releases the GIL
        if len(content) <= _PIECE or request.method == "HEAD":
            response: web.StreamResponse = web.Response(
                status=answer.status, headers=_head_of(answer), body=content
            )
            await self._begin(request, response)
        else:
            response = web.StreamResponse(status=answer.status, headers=_head_of(answer))
            response.content_length = len(content)
            await self._begin(request, response)
            await _write(response, content)
        await response.write_eof()
        return response

    async def _stream(
        self, request: web.BaseRequest, task: asyncio.Task[Any], answer: ApiResponse, stream: Any
    ) -> web.StreamResponse:
        """Send the chunks until the stream ends, the client disconnects or the server stops."""
        response = web.StreamResponse(status=answer.status, headers=_head_of(answer))
        await self._begin(request, response)
        async with self._ends_with_server(request, task), contextlib.aclosing(stream) as parts:
            async for part in parts:
                if part:
                    await _write(response, part)
        await response.write_eof()
        return response

    async def _serve_socket(
        self,
        request: web.BaseRequest,
        task: asyncio.Task[Any],
        answer: ApiResponse,
        serve: Callable[[WebSocket], Awaitable[None]],
    ) -> web.StreamResponse:
        """Turn the connection into a WebSocket until `serve` returns."""
        protocol = answer.headers.pop("Sec-WebSocket-Protocol", "")
        response = web.WebSocketResponse(
            protocols=(protocol,) if protocol else (),
            compress=False,
            max_msg_size=_LONGEST_MESSAGE,
            timeout=_CLOSE_TIMEOUT,
        )
        response.headers.update(answer.headers)
        await response.prepare(request)
        async with self._ends_with_server(request, task):
            await serve(_Socket(response))
        await response.close()
        return response

    @contextlib.asynccontextmanager
    async def _ends_with_server(
        self, request: web.BaseRequest, task: asyncio.Task[Any]
    ) -> AsyncIterator[None]:
        """Cancel the `with` block when the server stops, and suppress this cancellation at its end."""
        self._streaming.add(task)
        if self._stopping:
            task.cancel()
        try:
            yield
        except asyncio.CancelledError:
            if not self._stopping or request.transport is None:
                raise
            task.uncancel()
        finally:
            self._streaming.discard(task)

    async def _begin(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Send the response's head; close the connection afterwards if it cannot carry another request."""
        if self._stopping or "Upgrade" in request.headers:
            response.force_close()
        await response.prepare(request)


class _Connection(web.RequestHandler):
    """HTTP connection that remembers the subject of the client's certificate."""

    subject: Mapping[str, list[str]] | None = None
    stalled_since = math.inf
    """The event loop's time at which sending stalled; infinity while data can be sent."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the subject of the client's certificate, once for all requests of the connection."""
        self.subject = _subject_of(transport)
        super().connection_made(transport)

    def pause_writing(self) -> None:
        self.stalled_since = asyncio.get_running_loop().time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.stalled_since = math.inf
        super().resume_writing()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer an invalid HTTP request with an error; for other errors, close the connection silently."""
        del request, message
        if status != HTTPStatus.BAD_REQUEST:
            raise ConnectionResetError from exc
        return _refusal(431 if isinstance(exc, LineTooLong) else status)


class _Socket:
    """`devcluster.http_call.WebSocket` on top of aiohttp."""

    def __init__(self, response: web.WebSocketResponse) -> None:
        self._response = response

    async def receive(self) -> bytes | None:
        message = await self._response.receive()
        if message.type is WSMsgType.TEXT:
            return str(message.data).encode()
        return message.data if message.type is WSMsgType.BINARY else None

    async def send(self, message: bytes) -> None:
        await self._response.send_bytes(message)


def server_context(identity: tuple[Path, Path], authority: Path) -> ssl.SSLContext:
    """Return a TLS context with the server's certificate; client certificates of `authority` are accepted.

    A certificate of another authority fails the handshake, while the real server answers 401. The server
    offers HTTP/1.1 only; clients that prefer HTTP/2 fall back to it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(*identity)
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["http/1.1"])
    return context


async def _write(response: web.StreamResponse, content: bytes) -> None:
    """Send the content in pieces, so that other tasks can run in between."""
    if len(content) <= _PIECE:
        await response.write(content)
        return
    view = memoryview(content)
    for start in range(0, len(content), _PIECE):
        await response.write(view[start : start + _PIECE])
        await asyncio.sleep(0)


async def _read_body(request: web.BaseRequest) -> bytes:
    """Return the request's body; raise TimeoutError if it is late, StatusError, 413, if it is too large."""
    if request.version == HttpVersion11 and request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if request.content.is_eof():
        return request.content.read_nowait()  # aiohttp stops reading long before the limit
    parts: list[bytes] = []
    size = 0
    async with asyncio.timeout(_BODY_TIMEOUT):
        while part := await request.content.readany():
            parts.append(part)
            size += len(part)
            if size > BODY_LIMIT:
                raise request_entity_too_large(f"Request entity too large: limit is {BODY_LIMIT}")
    return b"".join(parts)


def _headers_of(lines: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers, with their names in lower case.

    Repeated headers are joined by commas, as in HTTP. Repeated Impersonate headers are joined by line breaks,
    because their values may contain commas.
    """
    headers: dict[str, str] = {}
    for raw, line in lines:
        name, value = raw.decode("latin-1").lower(), line.decode("utf-8", "replace")
        if name in headers:
            value = headers[name] + ("\n" if name.startswith("impersonate-") else ", ") + value
        headers[name] = value
    return headers


def _split_target(target: str) -> tuple[str, Mapping[str, list[str]]]:
    """Split a request target into its decoded path and its query: the values of each parameter in order."""
    path, _, text = target.partition("?")
    if not path.startswith("/"):
        # The target is a full URL, as sent to a proxy.
        path = "/" + path.partition("://")[2].partition("/")[2]
    if "%" in path:
        path = unquote(path)
    if not text:
        return path, {}
    query: dict[str, list[str]] = {}
    for pair in text.split("&", _MOST_PARAMETERS)[:_MOST_PARAMETERS]:
        if "%" in pair or "+" in pair or ";" in pair:
            for name, value in parse_qsl(pair, keep_blank_values=True):
                query.setdefault(name, []).append(value)
        elif pair:
            name, _, value = pair.partition("=")
            query.setdefault(name, []).append(value)
    return path, query


def _subject_of(transport: asyncio.BaseTransport) -> dict[str, list[str]] | None:
    """Return the subject of the client's certificate, such as `{"CN": [...], "O": [...]}`, or None.

    The value of `X509SHA256` is the certificate's fingerprint.
    """
    certificate = transport.get_extra_info("peercert")
    if not certificate:
        return None
    subject: dict[str, list[str]] = {"CN": [], "O": []}
    short = {"commonName": "CN", "organizationName": "O"}
    for names in certificate.get("subject", ()):
        for name, value in names:
            if name in short:
                subject[short[name]].append(value)
    connection = transport.get_extra_info("ssl_object")
    if connection is not None:
        subject["X509SHA256"] = [hashlib.sha256(connection.getpeercert(binary_form=True)).hexdigest()]
    return subject


def _head_of(answer: ApiResponse) -> CIMultiDict[str]:
    head = CIMultiDict(answer.headers)
    head["Content-Type"] = answer.content_type
    head["Cache-Control"] = "no-cache, private"
    head["Server"] = "devcluster"
    for warning in _fitting(answer.warnings):
        head.add("Warning", f'299 - "{_quoted(warning)}"')
    return head


def _refusal(status: int) -> web.Response:
    """Return the response to an invalid request, after which the connection is closed."""
    text = f"{status} {HTTPStatus(status).phrase}"
    response = web.Response(status=status, text=text, headers={"Server": "devcluster"})
    response.force_close()
    return response


def _reset(transport: asyncio.Transport | None) -> None:
    """Reset a connection as a network failure would: unsent data is lost, and the client gets a TCP reset."""
    if transport is not None:
        connection = transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        transport.abort()


def _gzip(body: bytes) -> bytes:
    packer = zlib.compressobj(zlib.Z_BEST_SPEED, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


def _fitting(warnings: list[str]) -> list[str]:
    """Return the warnings to send; if they are too long, shorten each, and drop the last ones."""
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
    """Escape a warning for the quoted string in a Warning header."""
    line = "".join(char if char.isprintable() else " " for char in warning)
    return line.replace("\\", "\\\\").replace('"', '\\"')
