"""Connections that fail at an unlucky moment, without harm to the next request."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import Callable

import pytest
import trustme
import uvloop

from manager.kube.connection import READ_AHEAD
from manager.kube.errors import ConnectionLost, ProtocolError
from manager.kube.http_wire import HttpWire
from manager.kube.wire import WireRequest
from tests.unit.kube.servers import Answer, LocalServer, ScriptedServer, config_for

GET = WireRequest("GET", "/api", {})
LARGE = WireRequest("PUT", "/api", {}, b"x" * 50_000_000)
"""More than all buffers on the way hold."""

REFUSED = b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\n"


async def fetch(wire: HttpWire, request: WireRequest = GET) -> tuple[int, bytes]:
    async with asyncio.timeout(10), wire.exchange(request) as response:
        return response.status, await response.read()


async def until(condition: Callable[[], bool]) -> None:
    """Poll for a condition without an event."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never happened")


async def test_a_connection_on_which_half_a_request_was_sent_is_not_used_again(
    wire: HttpWire, script: ScriptedServer
):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(REFUSED)
        await asked.wait()
        writer.write(b"big")
        await reader.read(-1)

    asked = asyncio.Event()
    script.serve = serve
    async with wire.exchange(LARGE) as response:
        assert response.status == 413
        asked.set()
        assert await response.read() == b"big"
    script.serve = script.take_answers
    assert await fetch(wire) == (200, b"ok")
    assert script.connections == 2


async def test_an_answer_frees_whoever_waits_for_the_server_to_take_the_rest(
    wire: HttpWire, script: ScriptedServer
):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()
        connection = next(iter(wire._pool._open))
        await until(lambda: connection._writable is not None)
        writer.write(REFUSED + b"big")
        await answered.wait()

    answered = asyncio.Event()
    script.serve = serve
    assert await fetch(wire, LARGE) == (413, b"big")
    answered.set()


async def test_a_connection_goes_on_after_an_answer_of_which_nobody_wanted_the_rest(
    wire: HttpWire, script: ScriptedServer
):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (READ_AHEAD + 2))
        await writer.drain()
        writer.write(b"x" * (READ_AHEAD - 100))
        await writer.drain()
        await begun.wait()
        writer.write(b"x" * 102)
        await script.take_answers(reader, writer)

    begun = asyncio.Event()
    script.serve = serve
    async with wire.exchange(WireRequest("GET", "/log", {}, stream=True)) as response:
        connection = next(iter(wire._pool._open))
        await until(lambda: response.held == READ_AHEAD - 100)
        begun.set()
        await until(lambda: connection.is_idle)
    assert await fetch(wire) == (200, b"ok")


async def test_an_answer_without_end_is_given_up_where_it_is_too_long(wire: HttpWire, script: ScriptedServer):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + bytes(65536) + b"\r\n")
            await writer.drain()

    script.serve = serve
    async with asyncio.timeout(10), wire.exchange(GET) as response:
        with pytest.raises(ProtocolError, match="the answer is longer than 1000000 bytes"):
            await response.read(1_000_000)
        assert response.held == 0
    script.serve = script.take_answers
    assert await fetch(wire) == (200, b"ok")


@pytest.mark.parametrize(
    ("begin", "more"), [(b"0\r\na: ", b"b" * 1000), (b"0\r\n", b"a: b\r\n" * 200), (b"1;", b"e" * 1000)]
)
async def test_wire_gives_up_an_answer_with_endless_trailers_or_chunk_extensions(
    wire: HttpWire, script: ScriptedServer, begin: bytes, more: bytes
):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n" + begin)
        while True:
            writer.write(more)
            await writer.drain()

    script.serve = serve
    async with asyncio.timeout(10), wire.exchange(GET) as response:
        with pytest.raises(ConnectionLost, match="too much besides its body"):
            await response.read()
    script.serve = script.take_answers
    assert await fetch(wire) == (200, b"ok")


async def test_an_answer_that_ends_with_the_connection_is_not_complete_when_we_reset_that(
    wire: HttpWire, script: ScriptedServer
):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nhal")
        await reader.read(-1)

    script.serve = serve
    async with wire.exchange(GET) as response:
        wire.abort()
        with pytest.raises(ConnectionLost):
            await response.read()


async def test_closing_can_be_given_up(wire: HttpWire, script: ScriptedServer):
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


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_wire_keeps_nothing_of_a_request_that_is_cancelled_at_any_turn(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], authority: trustme.CA
):
    """Cancel the request after each number of turns of the event loop, until it ends before that."""

    async def scenario() -> None:
        async with LocalServer(authority) as server:
            server.answer = lambda request: Answer(request.body)
            wire = HttpWire(config_for(server.url, authority), connections=1)
            wire.exchange(GET)
            pool = wire._pool
            assert pool is not None
            over = False
            for turns in itertools.count():
                asking = asyncio.create_task(fetch(wire, WireRequest("PUT", "/api", {}, b"x" * 400_000)))
                for _ in range(turns):
                    await asyncio.sleep(0)
                over = asking.done()
                asking.cancel()
                await asyncio.wait([asking])
                if over:
                    break
                assert await fetch(wire, WireRequest("PUT", "/api", {}, b"mine")) == (200, b"mine")
                for connection in list(pool._idle):
                    connection.abort()
            await wire.aclose()
            assert [each for each in pool._sockets if each.fileno() >= 0] == []

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(scenario())
    asyncio.set_event_loop(None)
    gc.collect()
