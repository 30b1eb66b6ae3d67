from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest

from devcluster.errors import not_found
from devcluster.http_call import ApiRequest, ApiResponse, ConnectionCut, WebSocket
from devcluster.http_server import BODY_LIMIT, HttpServer, _fitting

Serve = Callable[[WebSocket], Awaitable[None]]

HANDSHAKE = (
    b"GET /socket HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


async def echo(opened: WebSocket) -> None:
    while (message := await opened.receive()) is not None:
        await opened.send(message)


class Client:
    """HTTP client that sends a test's request as it is, except that its lines end with CRLF."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, head: str, body: bytes = b"") -> None:
        self.writer.write(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
        await self.writer.drain()

    async def receive(self) -> tuple[int, dict[str, str], bytes]:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        status = int(lines[0].split()[1])
        headers: dict[str, str] = {}
        for line in lines[1:-2]:
            name, _, value = line.partition(": ")
            headers[name.lower()] = f"{headers[name.lower()]}|{value}" if name.lower() in headers else value
        body = b""
        if "content-length" in headers:
            body = await self.reader.readexactly(int(headers["content-length"]))
        return status, headers, body

    async def ask(self, head: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
        await self.send(head, body)
        return await self.receive()


class Served:
    """HTTP server with a response for each path, and with a stream whose chunks come from the test."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.closed = asyncio.Event()
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()
        self.serve: Serve = echo
        self.socket_ended = asyncio.Event()
        self.server = HttpServer(self.handle)
        self.port = 0
        self.clients: list[Client] = []

    async def handle(self, request: ApiRequest) -> ApiResponse:
        match request.path:
            case "/large":
                return ApiResponse(body=b"x" * 200_000)
            case "/huge":
                return ApiResponse(body=b"x" * 600_000)
            case "/missing":
                raise not_found("", "pods", "a")
            case "/broken":
                raise RuntimeError("oops")
            case "/cut":
                raise ConnectionCut
            case "/warned":
                return ApiResponse(body=b"{}", warnings=['say "hi"', "second\nline"])
            case "/slow":
                self.begun.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    self.closed.set()
            case "/stream":
                return ApiResponse(stream=self.stream())
            case "/socket":
                headers = {"Sec-WebSocket-Protocol": "p"}
                return ApiResponse(status=101, headers=headers, websocket=self.serve_socket)
        headers = dict(request.headers)
        size = len(request.body)
        return ApiResponse.json(
            {"path": request.path, "query": request.query, "headers": headers, "size": size}
        )

    async def serve_socket(self, opened: WebSocket) -> None:
        try:
            await self.serve(opened)
        finally:
            self.socket_ended.set()

    async def stream(self):
        try:
            while True:
                line = await self.lines.get()
                if line == b"cut":
                    raise ConnectionCut
                if line == b"fail":
                    raise RuntimeError("oops")
                yield line
        finally:
            self.closed.set()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        url = f"http://127.0.0.1:{self.port}/socket"
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(url, protocols=("p",), max_msg_size=0) as socket,
        ):
            yield socket

    async def connect(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self.clients.append(client)
        return client


@pytest.fixture
async def served():
    listener = socket.create_server(("127.0.0.1", 0))
    served = Served()
    served.port = listener.getsockname()[1]
    await served.server.start(listener)
    yield served
    await served.server.stop()
    for client in served.clients:
        client.writer.close()


@pytest.fixture
async def client(served: Served):
    return await served.connect()


async def test_server_decodes_path_and_query_and_headers_of_a_request(client: Client):
    status, headers, body = await client.ask(
        "GET /a%20b?x=1&x=%202&y HTTP/1.1\nHost: h\nAccept: a\nAccept: b\n"
        f"Impersonate-Group: a,b\nImpersonate-Group: c\nX-Long: {'a' * 100_000}"
    )
    request = json.loads(body)
    assert (status, request["path"], request["query"]) == (200, "/a b", {"x": ["1", " 2"], "y": [""]})
    assert (request["headers"]["accept"], request["headers"]["impersonate-group"]) == ("a, b", "a,b\nc")
    assert headers["cache-control"] == "no-cache, private"
    assert len(headers["audit-id"]) == 36


async def test_server_sends_100_continue_when_the_client_expects_it(client: Client):
    await client.send("POST / HTTP/1.1\nHost: h\nContent-Length: 2\nExpect: 100-continue")
    assert (await client.reader.readuntil(b"\r\n\r\n")) == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.writer.write(b"ab")
    _, _, body = await client.receive()
    assert json.loads(body)["size"] == 2


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"HELLO THERE\r\n\r\n", 400),
        (b"GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", 408),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % (BODY_LIMIT + 1), 413),
        (b"GET / HTTP/1.1\r\nHost: h\r\nX-Long: " + b"a" * 1_500_000, 431),
    ],
    ids=["not HTTP", "bad escape", "body without end", "large body", "long header"],
)
async def test_server_answers_4xx_to_a_malformed_incomplete_or_oversized_request(
    client: Client, sent: bytes, code: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("devcluster.http_server._BODY_TIMEOUT", 0.1)
    client.writer.write(sent + b"a" * (BODY_LIMIT + 1) * (code == 413))
    status, _, body = await client.receive()
    assert status == code
    assert code != 413 or json.loads(body)["message"] == "Request entity too large: limit is 3145728"


@pytest.mark.parametrize(
    ("path", "code", "reason"), [("/missing", 404, "NotFound"), ("/broken", 500, "InternalError")]
)
async def test_server_answers_an_error_and_keeps_the_connection_when_a_handler_raises(
    client: Client, path: str, code: int, reason: str
):
    status, _, body = await client.ask(f"GET {path} HTTP/1.1\nHost: h")
    assert (status, json.loads(body)["reason"]) == (code, reason)
    assert (await client.ask("GET / HTTP/1.1\nHost: h"))[0] == 200


async def test_warning_header_contains_the_quoted_warning_text(client: Client):
    _, headers, _ = await client.ask("GET /warned HTTP/1.1\nHost: h")
    assert headers["warning"] == '299 - "say \\"hi\\""|299 - "second line"'


@pytest.mark.parametrize(
    ("accepted", "path", "encoding"),
    [
        ("gzip", "/large", "gzip"),
        ("br, gzip", "/large", "gzip"),
        ("", "/large", None),
        ("deflate", "/large", None),
        ("gzip;q=0", "/large", None),
        ("gzip", "/", None),
    ],
)
async def test_server_compresses_large_responses_only_for_clients_that_accept_gzip(
    client: Client, accepted: str, path: str, encoding: str | None
):
    _, headers, body = await client.ask(f"GET {path} HTTP/1.1\nHost: h\nAccept-Encoding: {accepted}")
    assert headers.get("content-encoding") == encoding
    assert path == "/" or (gzip.decompress(body) if encoding else body) == b"x" * 200_000


async def test_server_sends_no_body_of_a_large_response_to_a_head_request(client: Client):
    await client.send("HEAD /huge HTTP/1.1\nHost: h")
    head = await client.reader.readuntil(b"\r\n\r\n")
    assert b"Content-Length: 600000\r\n" in head
    _, _, body = await client.ask("GET /huge HTTP/1.1\nHost: h")
    assert body == b"x" * 600_000


async def test_server_sends_stream_headers_before_the_first_chunk(client: Client, served: Served):
    status, headers, _ = await client.ask("GET /stream HTTP/1.1\nHost: h\nAccept-Encoding: gzip")
    assert status == 200
    assert headers["transfer-encoding"] == "chunked"
    served.lines.put_nowait(b"one\n")
    assert await client.reader.readuntil(b"one\n\r\n") == b"4\r\none\n\r\n"


async def test_server_closes_a_stream_when_its_client_disconnects(client: Client, served: Served):
    await client.ask("GET /stream HTTP/1.1\nHost: h")
    client.writer.transport.abort()
    async with asyncio.timeout(5):
        await served.closed.wait()


async def test_server_stop_ends_streams_with_a_complete_response(client: Client, served: Served):
    await client.ask("GET /stream HTTP/1.1\nHost: h")
    async with asyncio.timeout(5):
        await served.server.stop()
        assert await client.reader.read() == b"0\r\n\r\n"
    assert served.closed.is_set()


@pytest.mark.parametrize(("path", "line"), [("/stream", b"cut"), ("/stream", b"fail"), ("/cut", b"")])
async def test_server_resets_the_connection_when_a_response_breaks_off(
    client: Client, served: Served, path: str, line: bytes
):
    await client.send(f"GET {path} HTTP/1.1\nHost: h")
    served.lines.put_nowait(line)
    with pytest.raises(ConnectionResetError):
        await client.reader.read()


async def test_server_resets_all_connections_when_cut_connections_is_called(served: Served):
    clients = [await served.connect() for _ in range(3)]
    for each in clients:
        await each.ask("GET / HTTP/1.1\nHost: h")
    assert served.server.cut_connections() == 3
    for each in clients:
        with pytest.raises(ConnectionResetError):
            await each.reader.read()


async def test_server_stop_cancels_unfinished_requests_after_its_timeout(
    client: Client, served: Served, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("devcluster.http_server._STOP_TIMEOUT", 0.1)
    await client.send("GET /slow HTTP/1.1\nHost: h")
    await served.begun.wait()
    await served.server.stop()
    assert served.closed.is_set()


async def test_server_drops_a_client_that_does_not_read(
    client: Client, served: Served, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("devcluster.http_server._STALL_TIMEOUT", 0.1)
    monkeypatch.setattr("devcluster.http_server._CHECK_INTERVAL", 0.1)
    served.server._check()
    await client.ask("GET /stream HTTP/1.1\nHost: h")
    client.writer.transport.pause_reading()
    for _ in range(64):
        served.lines.put_nowait(b"x" * 1_000_000)
    await asyncio.wait_for(served.closed.wait(), 5)


def test_warning_headers_are_truncated_like_those_of_the_real_server():
    assert _fitting(["a" * 4000, "b"]) == ["a" * 4000, "b"]
    assert _fitting(["a" * 4000, "b" * 4000, "c"]) == ["a" * 256, "b" * 256, "c"]
    assert len(_fitting([f"{each:0216}" for each in range(200)])) == 19


async def test_websocket_handler_ends_when_the_connection_breaks(client: Client, served: Served):
    client.writer.write(HANDSHAKE)
    head = await client.reader.readuntil(b"\r\n\r\n")
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head  # the example of the RFC
    client.writer.transport.abort()
    await asyncio.wait_for(served.socket_ended.wait(), 10)


async def test_websocket_is_closed_when_a_message_is_too_long(client: Client):
    client.writer.write(HANDSHAKE + b"\x82\xff" + (4 * 1024 * 1024 + 1).to_bytes(8))
    await client.reader.readuntil(b"\r\n\r\n")
    frame = await client.reader.read()
    assert (frame[0], int.from_bytes(frame[2:4])) == (0x88, 1009)


async def test_websocket_stops_reading_while_the_handler_is_busy(served: Served):
    go_on, taken = asyncio.Event(), list[bytes]()

    async def late(opened: WebSocket) -> None:
        await go_on.wait()
        while (message := await opened.receive()) is not None:
            taken.append(message)

    served.serve = late
    async with served.opened() as opened:
        piece = bytes(1_000_000)

        async def send() -> None:
            for _ in range(60):
                await opened.send_bytes(piece)

        sending = asyncio.create_task(send())
        await asyncio.wait([sending], timeout=0.5)
        assert not sending.done()
        go_on.set()
        await sending
    await served.socket_ended.wait()
    assert len(taken) == 60


async def test_server_stop_closes_websockets(served: Served):
    async with served.opened() as opened:
        stopping = asyncio.create_task(served.server.stop())
        assert (await opened.receive(timeout=10)).type is aiohttp.WSMsgType.CLOSE
        await opened.close()
        await stopping
