"""Parsing of responses, and reuse, failure and cancellation of connections."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from unittest.mock import Mock

import pytest
import trustme

from manager.kube.connection import HEAD_LIMIT, READ_AHEAD, Connection, Headers
from manager.kube.errors import ConnectionLost, ProtocolError
from manager.kube.http_wire import HttpWire
from manager.kube.wire import LONGEST, WireRequest
from tests.unit.kube.servers import (
    GET,
    OK,
    Answer,
    LocalServer,
    ScriptedServer,
    Serve,
    end_of_answers,
    fetch,
    next_request,
    silence,
    wire_to,
)

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
REFUSED = b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\n"


RESPONSES = [
    (CHUNKED + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 200, b"abcde", 1),
    (CHUNKED + b"1\r\na\r\n0\r\nX-Late: 1\r\n\r\n", 200, b"a", 1),
    (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, 200, b"ok", 1),
    (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, 200, b"ok", 1),
    (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", 1),
    (b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", 302, b"", 1),
    (OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), 200, b"ok", 2),
    (OK + OK.replace(b"ok", b"no"), 200, b"ok", 2),
]
"""Each response with its status, its body, and the number of connections after a second request."""


@pytest.mark.parametrize(("answer", "status", "body", "connections"), RESPONSES)
async def test_connection_is_reused_after_a_complete_response_unless_the_server_closes_it(
    wire: HttpWire, script: ScriptedServer, answer: bytes, status: int, body: bytes, connections: int
):
    script.answers = [answer]
    assert await fetch(wire) == (status, body)
    assert await fetch(wire) == (200, b"ok")
    assert script.connections == connections


@pytest.mark.parametrize("between", [b"", b"\r\n", b"\r\n\r\n"], ids=len)
async def test_response_headers_omit_1xx_headers_and_join_repeated_headers_with_commas(
    wire: HttpWire, script: ScriptedServer, between: bytes
):
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + between
    warnings = b'\r\nWarning: 299 - "a"\r\nwarning: 299 - "b"\r\n\r\n'
    script.answers = [between + hint + hint + OK.replace(b"\r\n\r\n", warnings), OK]
    first, second = [(await wire.fetch(GET, LONGEST)).headers for _ in range(2)]
    assert first["WARNING"] == '299 - "a", 299 - "b"'
    assert first.keys() == {"Content-Length", "Warning"}
    assert dict(second) == {"Content-Length": "2"}


def test_response_headers_are_parsed_only_once():
    class Head(bytes):
        times = 0

        def decode(self, *args: str) -> str:
            Head.times += 1
            return super().decode(*args)

    assert dict(Headers(Head(b"HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\na: 3"))) == {"A": "1, 3", "B": "2"}
    assert Head.times == 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "the server hung up"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "the answer is no HTTP"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * HEAD_LIMIT, "too much besides its body"),
        (CHUNKED + b"zz\r\n", "in the middle of the answer"),
    ],
    ids=["no response", "other protocol", "upgrade", "endless head", "bad chunk"],
)
async def test_http_wire_raises_a_connection_lost_error_for_an_invalid_response_and_then_reconnects(
    wire: HttpWire, script: ScriptedServer, answer: bytes | None, message: str
):
    script.answers = [answer]
    with pytest.raises(ConnectionLost, match=message):
        await fetch(wire)
    assert await fetch(wire) == (200, b"ok")
    assert script.connections == 2


async def test_request_is_not_repeated_when_the_server_closes_a_reused_connection(
    wire: HttpWire, script: ScriptedServer
):
    script.play(OK, next_request, end_of_answers)
    assert await fetch(wire) == (200, b"ok")
    with pytest.raises(ConnectionLost, match="the server hung up"):
        await asyncio.wait_for(fetch(wire), 10)
    assert script.connections == 1


async def test_pool_does_not_reuse_an_idle_connection_that_the_server_closed(
    wire: HttpWire, script: ScriptedServer
):
    let_go = asyncio.Event()
    script.play(OK, let_go)
    assert await fetch(wire) == (200, b"ok")
    let_go.set()
    await script.all_closed()
    for _ in range(10):  # until the event loop notices the closed connection
        await asyncio.sleep(0)
    assert await fetch(wire) == (200, b"ok")
    assert script.connections == 2


async def test_pool_takes_the_most_recently_used_idle_connection_next(wire: HttpWire):
    async with wire.exchange(GET) as first, wire.exchange(GET) as second:
        await second.read()
        await first.read()
    async with wire.exchange(GET) as third:
        assert third.transport is first.transport


async def test_pool_closes_connections_that_stay_idle_for_the_keep_alive_time(
    wire: HttpWire, script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("manager.kube.http_wire.KEEP_ALIVE", 0.05)
    async with wire.exchange(GET) as first, wire.exchange(GET) as second:
        await second.read()
        await first.read()
    assert script.connections == 2
    await script.all_closed()
    assert await fetch(wire) == (200, b"ok")
    assert script.connections == 3


async def test_http_wire_applies_backpressure_while_the_client_does_not_read_a_stream(
    wire: HttpWire, script: ScriptedServer
):
    size = 400 * READ_AHEAD
    written = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while written < size:
            writer.write(b"x" * READ_AHEAD)
            await writer.drain()
            written += READ_AHEAD
        await reader.read()

    script.serve = serve
    async with wire.exchange(WireRequest("GET", "/watch", {}, stream=True)) as response:
        before = -1
        while before != written:  # until the server is blocked
            before = written
            await asyncio.sleep(0.05)
        assert written < size
        assert sum([len(chunk) async for chunk in response.chunks()]) == size


@pytest.mark.parametrize(
    ("path", "headers"),
    [*((path, {}) for path in ("/api/a b", "/api\r\nX: y", "/api/\u00fc", "")), ("/api", {"X": "a\r\nb: c"})],
)
async def test_http_wire_refuses_an_invalid_path_or_header_without_connecting(
    wire: HttpWire, script: ScriptedServer, path: str, headers: dict[str, str]
):
    with pytest.raises(ValueError, match=r"not the percent-encoded path|the header X has more than one line"):
        await fetch(wire, WireRequest("GET", path, headers))
    assert script.connections == 0


LARGE = WireRequest("PUT", "/api", {}, b"x" * 50_000_000)
"""Request that is larger than all buffers between client and server."""


def without_end(part: bytes) -> Serve:
    """Return a server function that sends `part` without end."""

    async def send(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(part)
            await writer.drain()

    return send


async def until(condition: Callable[[], bool]) -> None:
    """Poll until the condition is true."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the condition is still false")


async def test_connection_with_a_half_sent_request_is_not_reused(wire: HttpWire, script: ScriptedServer):
    asked = asyncio.Event()
    script.play(REFUSED, asked, b"big", silence)
    async with wire.exchange(LARGE) as response:
        assert response.status == 413
        asked.set()
        assert await response.read() == b"big"
    script.serve = script.take_answers
    assert await fetch(wire) == (200, b"ok")
    assert script.connections == 2


async def test_http_wire_returns_an_early_response_when_the_server_stops_reading_the_request(
    wire: HttpWire, script: ScriptedServer
):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()
        connection = next(iter(wire._open))
        await until(lambda: connection._writable is not None)
        writer.write(REFUSED + b"big")
        await answered.wait()

    answered = asyncio.Event()
    script.serve = serve
    assert await fetch(wire, LARGE) == (413, b"big")
    answered.set()


async def test_connection_is_reused_after_a_complete_unread_response(wire: HttpWire, script: ScriptedServer):
    begun = asyncio.Event()
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (READ_AHEAD + 2)
    script.play(head, b"x" * (READ_AHEAD - 100), begun, b"x" * 102, script.take_answers)
    async with wire.exchange(WireRequest("GET", "/log", {}, stream=True)) as response:
        connection = next(iter(wire._open))
        await until(lambda: response.held == READ_AHEAD - 100)
        begun.set()
        await until(lambda: connection.is_idle)
    assert await fetch(wire) == (200, b"ok")


async def test_http_wire_raises_protocol_error_when_a_response_exceeds_the_size_limit(
    wire: HttpWire, script: ScriptedServer
):
    script.play(CHUNKED, without_end(b"10000\r\n" + bytes(65536) + b"\r\n"))
    async with asyncio.timeout(10), wire.exchange(GET) as response:
        with pytest.raises(ProtocolError, match="the answer is longer than 1000000 bytes"):
            await response.read(1_000_000)
        assert response.held == 0
    script.serve = script.take_answers
    assert await fetch(wire) == (200, b"ok")


@pytest.mark.parametrize(
    ("begin", "more"), [(b"0\r\na: ", b"b" * 1000), (b"0\r\n", b"a: b\r\n" * 200), (b"1;", b"e" * 1000)]
)
async def test_http_wire_raises_connection_lost_for_endless_trailers_or_chunk_extensions(
    wire: HttpWire, script: ScriptedServer, begin: bytes, more: bytes
):
    script.play(CHUNKED + b"2\r\n{}\r\n" + begin, without_end(more))
    async with asyncio.timeout(10), wire.exchange(GET) as response:
        with pytest.raises(ConnectionLost, match="too much besides its body"):
            await response.read()
    script.serve = script.take_answers
    assert await fetch(wire) == (200, b"ok")


async def test_response_without_a_length_raises_connection_lost_when_the_wire_aborts(
    wire: HttpWire, script: ScriptedServer
):
    script.play(b"HTTP/1.0 200 OK\r\n\r\nhal", silence)
    async with wire.exchange(GET) as response:
        wire.abort()
        with pytest.raises(ConnectionLost):
            await response.read()


async def test_http_wire_aclose_closes_all_connections_even_when_it_is_cancelled(
    wire: HttpWire, script: ScriptedServer
):
    assert await fetch(wire) == (200, b"ok")
    problems = []
    asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
    closing = asyncio.create_task(wire.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    await script.all_closed()
    await asyncio.sleep(0.01)
    assert problems == []


@pytest.mark.each_loop
@pytest.mark.usefixtures("closing")
async def test_cancelled_request_does_not_affect_the_next_request_and_leaves_no_open_socket(
    server: LocalServer, authority: trustme.CA
):
    """Cancel a request after 0, 1, 2, … loop iterations, until a request ends before its cancellation."""
    server.answer = lambda request: Answer(request.body)
    async with wire_to(server.url, authority, connections=1) as wire:
        for turns in itertools.count():
            request = asyncio.create_task(fetch(wire, WireRequest("PUT", "/api", {}, b"x" * 400_000)))
            for _ in range(turns):
                await asyncio.sleep(0)
            is_over = request.done()
            request.cancel()
            await asyncio.wait([request])
            if is_over:
                break
            assert await fetch(wire, WireRequest("PUT", "/api", {}, b"mine")) == (200, b"mine")
            for connection in list(wire._idle):
                connection.abort()
    assert [each for each in wire._sockets if each.fileno() >= 0] == []


async def outcome_of(*pieces: bytes) -> tuple[int, bytes, bool]:
    """Return status and body of a response that arrives in these pieces, and whether it is complete."""
    transport, connection = Mock(asyncio.Transport), Connection()
    transport.is_closing = lambda: transport.close.called or transport.abort.called
    connection.connection_made(transport)
    asking = asyncio.ensure_future(connection.ask(b"GET / HTTP/1.1\r\n\r\n", b"", None))
    await asyncio.sleep(0)
    for piece in pieces:
        if not transport.is_closing():
            connection.data_received(piece)
    connection.connection_lost(None)
    status, body = 0, b""
    try:
        answer = await asking
        status = answer.status
        async for chunk in answer.chunks():
            assert chunk
            body += chunk
    except ConnectionLost:
        return status, body, False
    return status, body, True


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        *((answer, (status, body, True)) for answer, status, body, _ in RESPONSES),
        (b"HTTP/1.0 404 \r\n\r\nab", (404, b"ab", True)),  # the end of the connection ends the body
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n", (304, b"", True)),
        (CHUNKED + b"2;x=y\r\nab\r\n0;x\r\nLate: 1\r\n\r\n", (200, b"ab", True)),
        (CHUNKED + b"2\r\nab\r\ng\r\n", (200, b"ab", False)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", (200, b"ab", False)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nab", (0, b"", False)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", (0, b"", False)),
        (CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 1\r\n\r\n"), (0, b"", False)),
    ],
)
async def test_response_parser_gives_the_same_result_for_any_split_into_pieces(
    answer: bytes, outcome: tuple[int, bytes, bool]
):
    assert await outcome_of(answer) == outcome
    for at in range(1, len(answer)):
        assert await outcome_of(answer[:at], answer[at:]) == outcome
    assert await outcome_of(*(answer[at : at + 1] for at in range(len(answer)))) == outcome
