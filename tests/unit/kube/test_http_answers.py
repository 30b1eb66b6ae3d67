"""Answers in every form that HTTP/1.1 allows, and some that it does not; each served byte for byte."""

from __future__ import annotations

import asyncio

import pytest

from manager.kube.connection import HEAD_LIMIT, READ_AHEAD
from manager.kube.errors import ConnectionLost
from manager.kube.http_wire import HttpWire
from manager.kube.wire import WireRequest
from tests.unit.kube.servers import OK, ScriptedServer

GET = WireRequest("GET", "/api", {})
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def fetch(wire: HttpWire, request: WireRequest = GET) -> tuple[int, bytes]:
    async with wire.exchange(request) as response:
        return response.status, await response.read()


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
            200,
            b"abcde",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Late: 1\r\n\r\n", 200, b"a"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, 200, b"ok"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, 200, b"ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", 302, b""),
    ],
    ids=["chunks", "trailer", "continue", "hints", "no content", "redirect"],
)
async def test_an_answer_is_complete_and_the_connection_goes_on(
    wire: HttpWire, script: ScriptedServer, answer: bytes, status: int, body: bytes
):
    script.answers = [answer]
    assert await fetch(wire) == (status, body)
    assert await fetch(wire) == (200, b"ok")
    assert script.connections == 1


async def test_an_answer_without_a_length_ends_with_the_connection(wire: HttpWire, script: ScriptedServer):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 502 Bad Gateway\r\nContent-Type: text/html\r\n\r\nnobody ")
        await writer.drain()
        writer.write(b"there")
        writer.write_eof()
        await reader.read()

    script.serve = serve
    assert await fetch(wire) == (502, b"nobody there")


async def test_a_server_that_says_it_will_close_is_taken_at_its_word(wire: HttpWire, script: ScriptedServer):
    script.answers = [OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")]
    assert await fetch(wire) == (200, b"ok")
    assert await fetch(wire) == (200, b"ok")
    assert script.connections == 2


async def test_headers_that_come_several_times_are_put_together(wire: HttpWire, script: ScriptedServer):
    script.answers = [OK.replace(b"\r\n\r\n", b'\r\nWarning: 299 - "a"\r\nwarning: 299 - "b"\r\n\r\n')]
    async with wire.exchange(GET) as response:
        assert response.headers["WARNING"] == '299 - "a", 299 - "b"'


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "the server hung up"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "the answer is no HTTP"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * HEAD_LIMIT, "too much besides its body"),
        (CHUNKED + b"zz\r\n", "in the middle of the answer"),
    ],
    ids=["none", "other protocol", "upgrade", "endless head", "bad chunk"],
)
async def test_wire_raises_connection_lost_and_reconnects_without_a_valid_answer(
    wire: HttpWire, script: ScriptedServer, answer: bytes | None, message: str
):
    script.answers = [answer]
    with pytest.raises(ConnectionLost, match=message):
        await fetch(wire)
    assert await fetch(wire) == (200, b"ok")
    assert script.connections == 2


async def test_a_server_that_hangs_up_on_a_later_request_has_not_answered_it(
    wire: HttpWire, script: ScriptedServer
):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await reader.readuntil(b"\r\n\r\n")
        writer.write_eof()

    script.serve = serve
    assert await fetch(wire) == (200, b"ok")
    with pytest.raises(ConnectionLost, match="the server hung up"):
        await asyncio.wait_for(fetch(wire), 10)
    assert script.connections == 1


async def test_an_answer_that_nobody_asked_for_is_not_taken_for_the_next(
    wire: HttpWire, script: ScriptedServer
):
    script.answers = [OK + OK.replace(b"ok", b"no")]
    assert await fetch(wire) == (200, b"ok")
    assert await fetch(wire) == (200, b"ok")
    assert script.connections == 2


async def test_a_connection_that_the_server_closes_while_it_is_idle_is_not_used(
    wire: HttpWire, script: ScriptedServer
):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await writer.drain()
        await let_go.wait()

    let_go = asyncio.Event()
    script.serve = serve
    assert await fetch(wire) == (200, b"ok")
    let_go.set()
    await script.all_closed()
    for _ in range(10):  # the event loop's turns until it sees that
        await asyncio.sleep(0)
    assert await fetch(wire) == (200, b"ok")
    assert script.connections == 2


async def test_the_connection_used_last_is_used_next_and_the_others_are_closed_in_time(
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


async def test_a_stream_that_nobody_consumes_holds_the_server_up(wire: HttpWire, script: ScriptedServer):
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
        while before != written:  # until nothing moves any more
            before = written
            await asyncio.sleep(0.05)
        assert written < size
        assert sum([len(chunk) async for chunk in response.chunks()]) == size


async def test_a_server_that_answers_before_it_has_heard_all_is_believed(
    wire: HttpWire, script: ScriptedServer
):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await writer.drain()
        await reader.read(100)
        await given_up.wait()

    given_up = asyncio.Event()
    script.serve = serve
    assert await fetch(wire, WireRequest("PUT", "/api", {}, b"x" * 50_000_000)) == (413, b"big")
    given_up.set()
    script.serve = script.take_answers
    assert await fetch(wire) == (200, b"ok")
    assert script.connections == 2


@pytest.mark.parametrize("path", ["/api/a b", "/api\r\nX: y", "/api/\u00fc", ""])
async def test_wire_refuses_an_unencoded_path_without_connecting(
    wire: HttpWire, script: ScriptedServer, path: str
):
    with pytest.raises(ValueError, match="not the percent-encoded path"):
        await fetch(wire, WireRequest("GET", path, {}))
    assert script.connections == 0


async def test_a_header_of_several_lines_is_never_sent(wire: HttpWire, script: ScriptedServer):
    with pytest.raises(ValueError, match="the header User-Agent has more than one line"):
        await fetch(wire, WireRequest("GET", "/api", {"User-Agent": "a\r\nb: c"}))
    assert script.connections == 0
