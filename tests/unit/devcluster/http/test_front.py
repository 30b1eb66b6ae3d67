from __future__ import annotations

import asyncio
import gzip
import json
import socket
import time

import pytest

from devcluster.errors import not_found
from devcluster.exchange import ApiRequest, ApiResponse, ConnectionCut
from devcluster.http.connection import BODY_LIMIT, _fitting
from devcluster.http.front import HttpFront


async def handle(request: ApiRequest) -> ApiResponse:
    match request.path:
        case "/large":
            return ApiResponse(body=b"x" * 200_000)
        case "/missing":
            raise not_found("", "pods", "a")
        case "/broken":
            raise RuntimeError("oops")
        case "/cut":
            raise ConnectionCut
        case "/warned":
            return ApiResponse(body=b"{}", warnings=['say "hi"', "second\nline"])
    return ApiResponse.json(
        {
            "method": request.method,
            "path": request.path,
            "query": request.query,
            "headers": dict(request.headers),
            "size": len(request.body),
        }
    )


class Client:
    """Client that sends the literal bytes of a test as HTTP."""

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
    """A front with a stream that the test holds."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.closed = asyncio.Event()
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()
        self.front = HttpFront(self.handle)
        self.port = 0
        self.clients: list[Client] = []

    async def handle(self, request: ApiRequest) -> ApiResponse:
        if request.path == "/slow":
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.closed.set()
        if request.path == "/stream":
            return ApiResponse(stream=self.stream())
        return await handle(request)

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

    async def connect(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self.clients.append(client)
        return client


@pytest.fixture
async def served():
    listener = socket.create_server(("127.0.0.1", 0))
    served = Served()
    served.port = listener.getsockname()[1]
    await served.front.start(listener)
    yield served
    await served.front.stop()
    for client in served.clients:
        client.writer.close()


@pytest.fixture
async def client(served: Served):
    return await served.connect()


async def test_a_request_arrives_with_its_parts_decoded(client: Client):
    status, _, body = await client.ask("GET /a%20b?x=1&x=%202&y HTTP/1.1\nHost: h\nAccept: a\nAccept: b")
    request = json.loads(body)
    assert status == 200
    assert request["path"] == "/a b"
    assert request["query"] == {"x": ["1", " 2"], "y": [""]}
    assert request["headers"]["accept"] == "a, b"


async def test_values_of_impersonation_headers_stay_apart(client: Client):
    _, _, body = await client.ask("GET / HTTP/1.1\nHost: h\nImpersonate-Group: a,b\nImpersonate-Group: c")
    assert json.loads(body)["headers"]["impersonate-group"] == "a,b\nc"


async def test_answers_are_not_to_be_kept_and_can_be_found_in_logs(client: Client):
    _, headers, _ = await client.ask("GET / HTTP/1.1\nHost: h")
    assert headers["cache-control"] == "no-cache, private"
    assert len(headers["audit-id"]) == 36


async def test_a_chunked_body_arrives_whole(client: Client):
    _, _, body = await client.ask(
        "POST / HTTP/1.1\nHost: h\nTransfer-Encoding: chunked", b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    )
    assert json.loads(body)["size"] == 5


async def test_a_client_that_waits_for_leave_to_send_gets_it(client: Client):
    await client.send("POST / HTTP/1.1\nHost: h\nContent-Length: 2\nExpect: 100-continue")
    assert (await client.reader.readuntil(b"\r\n\r\n")) == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.writer.write(b"ab")
    _, _, body = await client.receive()
    assert json.loads(body)["size"] == 2


async def test_a_compressed_body_is_not_unpacked(client: Client):
    packed = gzip.compress(b"{}")
    _, _, body = await client.ask(
        f"POST / HTTP/1.1\nHost: h\nContent-Encoding: gzip\nContent-Length: {len(packed)}", packed
    )
    assert json.loads(body)["size"] == len(packed)


async def test_a_body_above_the_limit_is_refused_with_a_status(client: Client):
    await client.send(f"POST / HTTP/1.1\nHost: h\nContent-Length: {BODY_LIMIT + 1}")
    client.writer.write(b"a" * (BODY_LIMIT + 1))
    status, _, body = await client.receive()
    assert status == 413
    assert json.loads(body)["message"] == "Request entity too large: limit is 3145728"


async def test_a_body_of_the_limit_is_taken(client: Client):
    _, _, body = await client.ask(
        f"POST / HTTP/1.1\nHost: h\nContent-Length: {BODY_LIMIT}", b"a" * BODY_LIMIT
    )
    assert json.loads(body)["size"] == BODY_LIMIT


async def test_requests_sent_ahead_are_answered_in_their_order(client: Client):
    for path in ("/1", "/2", "/3"):
        await client.send(f"GET {path} HTTP/1.1\nHost: h")
    answers = [json.loads((await client.receive())[2])["path"] for _ in range(3)]
    assert answers == ["/1", "/2", "/3"]


async def test_a_refusal_that_is_raised_is_answered(client: Client):
    status, _, body = await client.ask("GET /missing HTTP/1.1\nHost: h")
    assert status == 404
    assert json.loads(body)["reason"] == "NotFound"


async def test_a_failure_is_answered_and_the_connection_lives_on(client: Client):
    status, _, body = await client.ask("GET /broken HTTP/1.1\nHost: h")
    assert status == 500
    assert json.loads(body)["reason"] == "InternalError"
    assert (await client.ask("GET / HTTP/1.1\nHost: h"))[0] == 200


async def test_front_refuses_a_request_that_is_not_http(client: Client):
    await client.send("HELLO THERE")
    assert (await client.reader.readline()).split()[1] == b"400"


async def test_long_headers_are_taken(client: Client):
    assert (await client.ask(f"GET / HTTP/1.1\nHost: h\nX-Long: {'a' * 100_000}"))[0] == 200


async def test_headers_that_are_too_long_are_refused(client: Client):
    client.writer.write(b"GET / HTTP/1.1\r\nHost: h\r\nX-Long: " + b"a" * 1_500_000)
    assert (await client.reader.readline()).split()[1] == b"431"


async def test_warnings_are_quoted(client: Client):
    _, headers, _ = await client.ask("GET /warned HTTP/1.1\nHost: h")
    assert headers["warning"] == '299 - "say \\"hi\\""|299 - "second line"'


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [("gzip", "gzip"), ("br, gzip", "gzip"), ("", None), ("deflate", None), ("gzip;q=0", None)],
)
async def test_large_answers_are_compressed_only_for_clients_that_accept_gzip(
    client: Client, accepted: str, encoding: str | None
):
    _, headers, body = await client.ask(f"GET /large HTTP/1.1\nHost: h\nAccept-Encoding: {accepted}")
    assert headers.get("content-encoding") == encoding
    assert (gzip.decompress(body) if encoding else body) == b"x" * 200_000


async def test_small_answers_are_not_compressed(client: Client):
    _, headers, _ = await client.ask("GET / HTTP/1.1\nHost: h\nAccept-Encoding: gzip")
    assert "content-encoding" not in headers


async def test_a_stream_begins_before_there_is_anything_in_it(client: Client, served: Served):
    status, headers, _ = await client.ask("GET /stream HTTP/1.1\nHost: h\nAccept-Encoding: gzip")
    assert status == 200
    assert headers["transfer-encoding"] == "chunked"
    served.lines.put_nowait(b"one\n")
    assert await client.reader.readuntil(b"one\n\r\n") == b"4\r\none\n\r\n"


async def test_a_stream_is_closed_when_its_client_goes_away(client: Client, served: Served):
    await client.ask("GET /stream HTTP/1.1\nHost: h")
    client.writer.transport.abort()
    async with asyncio.timeout(5):
        await served.closed.wait()


async def test_stopping_ends_streams_as_if_they_were_over(client: Client, served: Served):
    await client.ask("GET /stream HTTP/1.1\nHost: h")
    async with asyncio.timeout(5):
        await served.front.stop()
        assert await client.reader.read() == b"0\r\n\r\n"
    assert served.closed.is_set()


@pytest.mark.parametrize("how", [b"cut", b"fail"])
async def test_a_stream_that_breaks_off_is_not_ended_properly(client: Client, served: Served, how: bytes):
    await client.ask("GET /stream HTTP/1.1\nHost: h")
    served.lines.put_nowait(how)
    with pytest.raises(ConnectionResetError):
        await client.reader.read()


async def test_a_cut_connection_gets_no_answer(client: Client):
    await client.send("GET /cut HTTP/1.1\nHost: h")
    with pytest.raises(ConnectionResetError):
        await client.reader.read()


async def test_front_cuts_all_connections(served: Served):
    clients = [await served.connect() for _ in range(3)]
    for each in clients:
        await each.ask("GET / HTTP/1.1\nHost: h")
    assert served.front.cut_connections() == 3
    for each in clients:
        with pytest.raises(ConnectionResetError):
            await each.reader.read()


async def test_a_request_for_another_protocol_is_answered_and_ends_the_connection(client: Client):
    status, headers, _ = await client.ask(
        "GET / HTTP/1.1\nHost: h\nConnection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Key: a"
    )
    assert status == 200
    assert headers["connection"] == "close"


async def test_front_closes_unfinished_requests_when_its_stop_times_out(
    client: Client, served: Served, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("devcluster.http.front._STOP_TIMEOUT", 0.1)
    await client.send("GET /slow HTTP/1.1\nHost: h")
    await served.begun.wait()
    await served.front.stop()
    assert served.closed.is_set()


async def test_front_drops_the_trailers_of_a_chunked_body(client: Client):
    _, _, body = await client.ask(
        "POST / HTTP/1.1\nHost: h\nTransfer-Encoding: chunked",
        b"0\r\nAuthorization: Bearer stolen\r\nImpersonate-User: admin\r\n\r\n",
    )
    assert json.loads(body)["headers"].keys() == {"host", "transfer-encoding"}


async def test_a_body_without_end_is_refused(client: Client):
    await client.send("POST / HTTP/1.1\nHost: h\nTransfer-Encoding: chunked")
    client.writer.write(b"0\r\nX-Trailer: " + b"a" * (8 * BODY_LIMIT))
    assert (await client.reader.readline()).split()[1] == b"413"


@pytest.mark.parametrize(
    "head",
    [
        "POST / HTTP/1.1\nHost: h\nContent-Length: 4\nTransfer-Encoding: chunked",
        "POST / HTTP/1.1\nHost: h\nContent-Length: 4\nContent-Length: 5",
        "POST / HTTP/1.1\nHost: h\nContent-Length: -4",
        "POST / HTTP/1.1\nHost: h\nTransfer-Encoding: chunked, identity",
        "POST / HTTP/1.1\nHost: h\nContent-Length : 4",
        "GET / HTTP/1.1\nHost: h\nAudit-Id: a\n b",
        "GET / HTTP/1.1\nHost: h\nAudit-Id: a\rX-Evil: b",
        "GET /%zz HTTP/1.1\nHost: h",
        "GET / HTTP/3.0\nHost: h",
        "PRI * HTTP/2.0",
    ],
)
async def test_front_refuses_ambiguous_requests(client: Client, head: str):
    await client.send(head, b"0\r\n\r\nGET /missing HTTP/1.1\r\nHost: h\r\n\r\n")
    answer = await client.reader.read()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


async def test_a_client_that_takes_nothing_is_dropped(client: Client, served: Served):
    await client.ask("GET /stream HTTP/1.1\nHost: h")
    client.writer.transport.pause_reading()
    for _ in range(64):
        served.lines.put_nowait(b"x" * 1_000_000)
    (connection,) = served.front._connections
    async with asyncio.timeout(5):
        while connection._writable is None:  # noqa: ASYNC110 -- nothing tells
            await asyncio.sleep(0.01)
        connection.check(time.monotonic())
        assert not served.closed.is_set()
        connection.check(time.monotonic() + 200)
        await served.closed.wait()


def test_warnings_are_truncated_as_the_real_server_does_when_they_are_too_long():
    assert _fitting(["a" * 4000, "b"]) == ["a" * 4000, "b"]
    assert _fitting(["a" * 4000, "b" * 4000, "c"]) == ["a" * 256, "b" * 256, "c"]
    assert len(_fitting([f"{each:0216}" for each in range(200)])) == 19
