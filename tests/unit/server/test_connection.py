"""Connections of slow, silent, hostile or many clients, and requests of every form."""

from __future__ import annotations

import asyncio
import errno
import functools
import gc
import gzip
import logging
import os
import socket
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from typing import Any, Literal

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler
from structlog.testing import capture_logs

from manager.server import Limits, connection
from manager.telemetry import open_files
from manager.tls.served import SelfSigned, ServedCertificate
from manager.util.address import BindAddress
from tests.support.certificates import trusting
from tests.support.effort import Effort, check_effort
from tests.support.eventually import eventually_async
from tests.support.served_pages import ServePages, serving

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LONG = 30.0


PATIENT = Limits(handshake=LONG, head=LONG, exchange=LONG)
"""Limits that no test reaches, except those that a test sets."""


class Client:
    """Client connection that sends literal bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def send_without_end(self) -> None:
        """Send meaningless bytes until the server stops reading them."""
        while True:
            self._writer.write(bytes(65536))
            await self._writer.drain()

    async def ask(self) -> bytes:
        """Send a request; return the body of the response."""
        self.send(REQUEST)
        return await self.answer()

    async def answer(self) -> bytes:
        """Return the body of the next response."""
        async with asyncio.timeout(10):
            head = await self._reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            return await self._reader.readexactly(length)

    async def ended(self) -> None:
        """Wait until the server has closed the connection."""
        with suppress(ConnectionError):
            await self.rest()

    async def rest(self) -> bytes:
        """Return all bytes that the server sends before it closes the connection."""
        async with asyncio.timeout(10):
            return await self._reader.read(-1)

    def end_sending(self) -> None:
        """Shut down the sending side of the TCP socket, without a TLS message."""
        with socket.socket(fileno=os.dup(self._writer.get_extra_info("socket").fileno())) as same:
            same.shutdown(socket.SHUT_WR)

    def take_nothing(self) -> None:
        """Stop reading from the connection."""
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]


@asynccontextmanager
async def client(
    address: BindAddress, *, tls: bool = False, source: str | None = None
) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", address.port, ssl=trusting() if tls else None, local_addr=source and (source, 0)
    )
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()


async def hello(request: web.Request) -> web.StreamResponse:
    return web.Response(text="hello")


async def no_connection_is_open() -> bool:
    return all(task.get_name() != "http-connection" for task in asyncio.all_tasks())


@asynccontextmanager
async def site(
    page: Handler = hello,
    *,
    tls: bool = False,
    limits: Limits = PATIENT,
    what: Literal["pages", "posts"] = "pages",
) -> AsyncIterator[BindAddress]:
    certificate, anywhere = ServedCertificate(SelfSigned()) if tls else None, BindAddress("127.0.0.1", 0)
    pages: Any = {what: {"/": page, "/{name}": page}}
    async with serving("pages", anywhere, certificate=certificate, limits=limits, **pages) as address:
        yield address


async def echo(request: web.Request) -> web.StreamResponse:
    body = await request.read()
    await asyncio.sleep(0)
    return web.Response(body=body)


@pytest.mark.each_loop
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_connection_closes_when_the_server_stops_while_the_connection_opens(
    tls: bool, monkeypatch: pytest.MonkeyPatch
):
    ending = []

    class Greeted(connection.ClientConnection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            ending.append(asyncio.ensure_future(served.end()))

    monkeypatch.setattr(connection, "ClientConnection", Greeted)

    certificate = ServedCertificate(SelfSigned()) if tls else None
    async with AsyncExitStack() as stack:
        if certificate is not None:
            await stack.enter_async_context(certificate.refreshed())
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        served = connection.Acceptor(listening, web.Server(hello), certificate, PATIENT)
        accepting = asyncio.ensure_future(served.accept())
        try:
            address = BindAddress("127.0.0.1", listening.getsockname()[1])
            async with client(address, tls=tls) as newcomer:
                await newcomer.ended()
                async with asyncio.timeout(10):
                    await ending[0]
                assert await no_connection_is_open()
        finally:
            accepting.cancel()
            await asyncio.wait([accepting])


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
@pytest.mark.each_loop
async def test_server_closes_a_connection_whose_tls_handshake_stalls(sent: bytes):
    limits = replace(PATIENT, handshake=0.1)
    async with site(tls=True, limits=limits) as address, client(address) as silent:
        silent.send(sent)
        await silent.ended()


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.each_loop
async def test_server_answers_other_clients_when_many_clients_are_silent(tls: bool):
    async with site(tls=tls) as address:
        silent = [
            await asyncio.open_connection("127.0.0.1", address.port) for _ in range(PATIENT.connections * 2)
        ]
        async with client(address, tls=tls) as other:
            for _ in range(3):
                assert await other.ask() == b"hello"
        still_open = [reader for reader, _ in silent if not reader.at_eof()]
        assert len(still_open) <= PATIENT.connections
        for _, writer in silent:
            writer.transport.abort()


@pytest.mark.each_loop
async def test_server_delays_new_connections_when_every_connection_is_being_answered():
    answer, all_there = asyncio.Event(), asyncio.Barrier(PATIENT.connections + 1)

    async def waits(request: web.Request) -> web.StreamResponse:
        if not answer.is_set():
            await all_there.wait()
            await answer.wait()
        return web.Response(text="hello")

    # The server drops slow clients after 0.01 s, but here the handlers are slow.
    async with site(waits, limits=replace(PATIENT, eviction=0.01)) as address, AsyncExitStack() as stack:
        many = [await stack.enter_async_context(client(address)) for _ in range(PATIENT.connections)]
        for each in many:
            each.send(REQUEST)
        await all_there.wait()
        one_more = await stack.enter_async_context(client(address))
        one_more.send(REQUEST)
        answering = asyncio.create_task(one_more.answer())
        await asyncio.wait([answering], timeout=0.1)
        assert not answering.done()
        answer.set()
        assert await answering == b"hello"
        for each in many:
            assert await each.answer() == b"hello"


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.each_loop
async def test_server_drops_an_incomplete_request_to_accept_a_new_client_at_the_connection_limit(tls: bool):
    limits, entered = replace(PATIENT, connections=4, eviction=0.05), asyncio.Semaphore(0)

    async def reads(request: web.Request) -> web.StreamResponse:
        entered.release()
        return web.Response(body=await request.read() or b"hello")

    async with site(reads, tls=tls, limits=limits) as address, AsyncExitStack() as stack:
        slow = [await stack.enter_async_context(client(address, tls=tls)) for _ in range(4)]
        for each in slow:
            each.send(b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n01")
            await entered.acquire()
        newcomer = await stack.enter_async_context(client(address, tls=tls))
        assert await newcomer.ask() == b"hello"
        await slow[0].ended()
        slow[1].send(b"23456789")
        assert await slow[1].answer() == b"0123456789"


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.each_loop
async def test_server_admits_a_new_client_when_no_client_reads_its_response(tls: bool):
    async def much(request: web.Request) -> web.StreamResponse:
        return web.Response(body=bytes(20_000_000) if request.query else b"hello")

    limits = replace(PATIENT, connections=2, eviction=0.05)
    async with site(much, tls=tls, limits=limits) as address, AsyncExitStack() as stack:
        for _ in range(2):
            stubborn = await stack.enter_async_context(client(address, tls=tls))
            stubborn.take_nothing()
            stubborn.send(REQUEST.replace(b"/", b"/?much=1", 1))
        newcomer = await stack.enter_async_context(client(address, tls=tls))
        assert await newcomer.ask() == b"hello"


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.each_loop
async def test_server_keeps_connections_of_other_clients_when_a_client_opens_many(tls: bool):
    limits = replace(PATIENT, connections=4)
    async with site(tls=tls, limits=limits) as address, AsyncExitStack() as stack:
        scraper = await stack.enter_async_context(client(address, tls=tls, source="127.0.0.2"))
        assert await scraper.ask() == b"hello"
        for _ in range(9):
            one = await stack.enter_async_context(client(address, tls=tls))
            assert await one.ask() == b"hello"
        assert await scraper.ask() == b"hello"
        third = await stack.enter_async_context(client(address, tls=tls, source="127.0.0.3"))
        assert await third.ask() == b"hello"


@pytest.mark.each_loop
async def test_server_first_drops_slow_connections_of_the_client_with_most_connections():
    limits = replace(PATIENT, connections=4, eviction=0.05)
    async with site(limits=limits) as address, AsyncExitStack() as stack:
        slow = await stack.enter_async_context(client(address, source="127.0.0.2"))
        slow.send(REQUEST[:-2])
        await asyncio.sleep(0)
        many = [await stack.enter_async_context(client(address)) for _ in range(3)]
        for one in many:
            one.send(REQUEST[:-2])
        await asyncio.sleep(2 * limits.eviction)
        for source in ("127.0.0.3", "127.0.0.4"):
            another = await stack.enter_async_context(client(address, source=source))
            assert await another.ask() == b"hello"
        slow.send(REQUEST[-2:])
        assert await slow.answer() == b"hello"


JUNK = {
    "no method": b"\x00\x01\x02\r\n\r\n",
    "bad method": b"G\x00T / HTTP/1.1\r\nHost: x\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "bad version": b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    "bad length": b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "bad chunk": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    "bad header": b"GET / HTTP/1.1\r\nHost x\r\n\r\n",
    "long header": b"GET / HTTP/1.1\r\nHost: " + b"x" * 70_000 + b"\r\n\r\n",
    "long target": b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "bad target": b"GET http://[::1/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "bad port": b"GET http://x:99999999/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "bad encoding": b"GET /%ff%fe?%ff HTTP/1.1\r\nHost: \xff\r\nConnection: close\r\n\r\n",
    "http 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "connect": b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "expect": b"GET / HTTP/1.1\r\nHost: x\r\nExpect: more\r\nConnection: close\r\n\r\n",
    "half": b"GET / HTTP/1.1\r\nHo",
    "length of zeros": b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"0" * 5000 + b"\r\n\r\n",
    "many lines": b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 8000 + b"\r\n",
}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.each_loop
async def test_server_logs_no_warning_when_clients_send_malformed_data(
    tls: bool, method: Literal["GET", "POST"], caplog: pytest.LogCaptureFixture
):
    # The limits of the ports for metrics and health, and of the port for webhooks.
    limits = replace(PATIENT, head=0.2, exchange=0.5, linger=0.2)
    with capture_logs() as lines:
        async with site(tls=tls, limits=limits, what="pages" if method == "GET" else "posts") as address:

            async def send(junk: bytes) -> None:
                async with client(address, tls=tls) as confused:
                    confused.send(junk)
                    await confused.ended()

            await asyncio.gather(*map(send, JUNK.values()))
            async with client(address, tls=tls) as sound:
                sound.send(REQUEST.replace(b"GET", method.encode()))
                assert await sound.answer() == b"hello"
    assert {line["log_level"] for line in lines} <= {"debug", "info"}
    assert max(len(str(line)) for line in lines) < 500
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


SENDERS = 3
MUCH = 250_000
LONG_BODY = b"Host: x\r\nContent-Length: 99999999\r\n\r\n" + bytes(MUCH)
OVERLOAD = {
    "lines": b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * (MUCH // 6),
    "a target": b"GET /" + b"a" * MUCH,
    "a header": b"GET / HTTP/1.1\r\nA: " + b"a" * MUCH,
    "no text": bytes(MUCH),
    "no text after an empty line": b"x\r\n\r\n" + bytes(MUCH),
    "more requests": REQUEST * (MUCH // len(REQUEST)),
    "garbage after a request": REQUEST + bytes(MUCH),
    "garbage after a body": b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx" + bytes(MUCH),
    "a body that its page does not read": b"GET / HTTP/1.1\r\n" + LONG_BODY,
    "a body that its page reads too late": b"GET /?late HTTP/1.1\r\n" + LONG_BODY,
    "a body that is for no page": b"POST / HTTP/1.1\r\n" + LONG_BODY,
    "trailers": b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    + b"a: b\r\n" * 40_000,
    "a bad chunk": b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz" + b"z" * MUCH,
    "a tunnel": b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(MUCH),
    "another protocol": REQUEST[:-2] + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n" + bytes(MUCH),
}


@pytest.mark.parametrize("tls", [pytest.param(False, marks=pytest.mark.long), True])
@pytest.mark.each_loop
async def test_server_frees_the_data_of_clients_that_disconnected(tls: bool):
    async def greets_or_reads(request: web.Request) -> web.StreamResponse:
        if request.query_string:
            await asyncio.sleep(0.2)
            await request.read()
        return await hello(request)

    gc.collect()
    gc.disable()  # garbage collections are rare in the manager
    try:
        async with site(greets_or_reads, limits=replace(PATIENT, linger=0.1), tls=tls) as address:
            tracemalloc.start(6)
            for what, sent in OVERLOAD.items():
                async with asyncio.TaskGroup() as group:
                    for _ in range(SENDERS):
                        group.create_task(sent_and_gone(address, sent, tls=tls))
                await eventually_async(functools.partial(little_is_kept, of=what), within=30)
    finally:
        tracemalloc.stop()
        gc.enable()


async def little_is_kept(*, of: str) -> None:
    little = SENDERS * MUCH * 3 // 5
    if tracemalloc.get_traced_memory()[0] < little:
        return  # checked together, because single checks are slow
    traces = tracemalloc.take_snapshot().traces
    kept = sum(each.size for each in traces if each.size > 30_000 and not is_of_a_client(each))
    assert kept < little, f"{of}: {kept} bytes"


def is_of_a_client(trace: tracemalloc.Trace) -> bool:
    return any(frame.filename.endswith("asyncio/streams.py") for frame in trace.traceback)


async def sent_and_gone(address: BindAddress, sent: bytes, *, tls: bool) -> None:
    async with client(address, tls=tls) as hostile:
        hostile.send(sent)
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(1 if LONG_BODY in sent else 0.1):
                if LONG_BODY in sent:
                    await hostile.send_without_end()
                await hostile.rest()


@pytest.mark.each_loop
async def test_server_answers_431_to_too_many_empty_lines_before_a_request():
    async with site(hello) as address, client(address) as hostile:
        hostile.send(b"\r\n" * 8 + REQUEST)
        assert await hostile.answer() == b"hello"
        hostile.send(b"\r\n" * (16 * 1024 + 1))
        assert (await hostile.rest()).startswith(b"HTTP/1.1 431 ")


async def test_server_logs_only_five_failures_of_a_page_that_always_fails():
    async def fails(request: web.Request) -> web.StreamResponse:
        raise LookupError("a fault of ours")

    with capture_logs() as lines:
        async with site(fails) as address:
            for _ in range(9):
                async with client(address) as one:
                    assert b"see the manager's log" in await one.ask()
    told = [line for line in lines if line["log_level"] == "error"]
    assert len(told) == 5
    assert isinstance(told[0]["exc_info"], LookupError)


async def test_server_does_not_decompress_a_compressed_body():
    packed = gzip.compress(bytes(1_000_000))
    head = b"GET / HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    async with site(echo) as address, client(address) as hostile:
        hostile.send(head + packed)
        assert await hostile.answer() == packed


async def test_listener_retries_when_it_cannot_accept_a_connection(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connection, "_ACCEPT_PAUSE", 0.01)
    accept = socket.socket.accept
    failures: list[OSError] = [
        ConnectionAbortedError(),
        *[OSError(errno.ENOBUFS, "No buffer space available")] * 3,
        *[OSError(errno.EMFILE, "Too many open files")] * 3,
    ]

    def starved(listening: socket.socket) -> Any:
        if failures:
            raise failures.pop()
        return accept(listening)

    monkeypatch.setattr(socket.socket, "accept", starved)
    with capture_logs() as lines:
        async with site() as address, client(address) as patient_one:
            assert await patient_one.ask() == b"hello"
    assert not failures
    [line] = [line for line in lines if line["log_level"] == "warning"]
    assert "No buffer space" in line["error"]


@contextmanager
def no_descriptor_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Let `accept` and `open` fail with EMFILE until a descriptor is closed.

    Yields the list of free descriptors, to which the test can add one.
    """
    accept, close, open_, left = socket.socket.accept, os.close, os.open, list[int]()

    def take() -> None:
        if not left:
            raise OSError(errno.EMFILE, "Too many open files")
        left.pop()

    def accepting(listening: socket.socket) -> Any:
        take()
        try:
            return accept(listening)
        except OSError:
            left.append(1)
            raise

    def opening(path: Any, *rest: Any, **named: Any) -> int:
        take()
        return open_(path, *rest, **named)

    def closing(fd: int) -> None:
        close(fd)
        left.append(1)

    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "accept", accepting)
        patch.setattr(open_files.os, "open", opening)
        patch.setattr(open_files.os, "close", closing)
        yield left


async def test_server_replaces_an_idle_connection_when_descriptors_are_scarce(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(connection, "are_scarce", lambda: True)
    async with site(limits=PATIENT) as address, client(address) as first:
        assert await first.ask() == b"hello"
        async with client(address) as second:
            assert await second.ask() == b"hello"
            await first.ended()


async def test_server_drops_a_silent_connection_when_no_descriptor_is_left(monkeypatch: pytest.MonkeyPatch):
    with capture_logs() as lines:
        async with site() as address, client(address) as silent:
            await asyncio.sleep(0)
            with no_descriptor_left(monkeypatch) as left:
                async with client(address) as first:
                    assert await first.ask() == b"hello"
                    await silent.ended()
                    left.append(1)  # the slot of the silent client
                    async with client(address) as second:
                        assert await second.ask() == b"hello"
    assert [line for line in lines if line["log_level"] != "info"] == []


async def test_server_closes_only_the_connection_that_causes_an_internal_error(
    monkeypatch: pytest.MonkeyPatch,
):
    loop = asyncio.get_running_loop()
    connect, faults = loop.connect_accepted_socket, [ValueError("odd")]

    async def faulty(factory: Any, accepted: socket.socket, **options: Any) -> Any:
        if faults:
            accepted.close()
            raise faults.pop()
        return await connect(factory, accepted, **options)

    monkeypatch.setattr(loop, "connect_accepted_socket", faulty)
    with capture_logs() as lines:
        async with site() as address, client(address) as unlucky, client(address) as lucky:
            await unlucky.ended()
            assert await lucky.ask() == b"hello"
    [line] = [line for line in lines if line["log_level"] == "error"]
    assert isinstance(line["exc_info"], ValueError)


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.each_loop
async def test_server_stop_does_not_wait_for_silent_and_idle_connections(tls: bool):
    async with AsyncExitStack() as stack, site(tls=tls, limits=replace(PATIENT, drain=LONG)) as address:
        for _ in range(20):
            await stack.enter_async_context(client(address))
        idle = await stack.enter_async_context(client(address, tls=tls))
        assert await idle.ask() == b"hello"
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 5
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("http-")] == []


@pytest.mark.each_loop
async def test_server_answers_408_when_a_request_is_too_slow():
    async with site(limits=replace(PATIENT, head=0.05)) as address, client(address) as slow:
        slow.send(b"GET / HT")
        assert (await slow.rest()).startswith(b"HTTP/1.1 408 Request Timeout\r\n")


@pytest.mark.each_loop
async def test_server_answers_400_to_a_plain_http_request_on_an_https_port():
    async with site(tls=True, limits=replace(PATIENT, linger=0.1)) as address:
        async with client(address) as confused:
            confused.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + bytes(1_000_000))
            confused.end_sending()
            said = await confused.rest()
        async with client(address) as stays_connected:
            stays_connected.send(REQUEST)
            await stays_connected.ended()
        assert said.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert said.endswith(b"this port is for HTTPS, and the request came over plain HTTP\n")
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("http-")] == []


@pytest.mark.each_loop
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("sent", [0, 10, 60, 75], ids=["nothing", "half a head", "a head", "half a body"])
async def test_stopping_server_answers_a_partly_received_request(sent: int, tls: bool):
    request = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length:      30\r\n\r\n" + b"." * 30
    limits = replace(PATIENT, drain=LONG)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(AsyncExitStack())
        address = await server.enter_async_context(site(echo, tls=tls, limits=limits, what="posts"))
        asking = await stack.enter_async_context(client(address, tls=tls))
        asking.send(request[:sent])
        stopping = asyncio.create_task(server.aclose())
        await eventually_async(lambda: refuses(address))
        assert not stopping.done()
        asking.send(request[sent:])
        assert await asking.answer() == b"." * 30
        await stopping


@pytest.mark.each_loop
async def test_stopping_server_answers_a_request_on_a_connection_not_yet_accepted():
    async with AsyncExitStack() as server:
        address = await server.enter_async_context(site(limits=replace(PATIENT, drain=LONG)))
        with socket.create_connection(("127.0.0.1", address.port)) as waiting:
            waiting.sendall(REQUEST)
            await server.aclose()
            assert waiting.recv(65536).endswith(b"hello")


async def refuses(address: BindAddress) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", address.port)
    except ConnectionRefusedError:
        return True
    writer.transport.abort()
    return False


@pytest.mark.each_loop
@pytest.mark.parametrize("tls", [False, True])
async def test_server_answers_only_complete_requests_after_the_client_half_closed(tls: bool):
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n"
    async with site(echo, tls=tls, what="posts") as address:
        for sent, answers in (
            *((b"", 0), (head + b"body", 1), ((head + b"body") * 2, 2)),
            *((head + b"bo", 0), (head, 0), (head[:20], 0)),
        ):
            async with client(address, tls=tls) as hasty:
                hasty.send(sent)
                hasty.end_sending()
                assert (await hasty.rest()).count(b"body") == answers
        await eventually_async(no_connection_is_open)


async def asked(page: Handler, request: bytes) -> bytes:
    """Return all bytes that the server sends for a request before it closes the connection."""
    async with site(page) as address, client(address) as one:
        one.send(request)
        return await one.rest()


def head(line: str, *lines: str) -> bytes:
    return "\r\n".join([line, "Host: x", "Connection: close", *lines, "", ""]).encode()


@pytest.mark.parametrize("first", [b"\x16\x03\x01\x02\x00", b"\x00", b" GET / HTTP/1.1\r\n"])
async def test_server_answers_400_immediately_when_bytes_cannot_begin_a_request(
    serve_pages: ServePages, first: bytes
):
    """Test a TLS handshake too, because an https client of a plain HTTP port must not wait."""
    pages = await serve_pages({"/": hello})
    async with client(pages.address) as one:
        one.send(first)
        assert b" 400 " in (await one.rest())[:13]


@pytest.mark.parametrize(
    ("size", "lines", "status"), [(2048, 100, b"200"), (2049, 2, b"400"), (2, 101, b"400")]
)
async def test_server_refuses_a_request_with_over_2048_bytes_of_url_or_100_lines(
    size: int, lines: int, status: bytes
):
    more = ["a: b"] * (lines - 2)
    answer = await asked(hello, head(f"GET {'/?'.ljust(size, 'q')} HTTP/1.1", *more))
    assert answer[9:12] == status


async def test_streamed_response_closes_an_http_1_0_connection_and_is_empty_for_head():
    async def streamed(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one")
        return response

    answer = await asked(streamed, b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert b"\r\nConnection: close\r\n" in answer
    assert answer.endswith(b"\r\n\r\none")
    assert (await asked(streamed, head("HEAD / HTTP/1.1"))).endswith(b"\r\n\r\n")


async def test_server_closes_the_connection_when_a_page_fails_during_its_response():
    async def breaks(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one")
        raise LookupError("a fault of ours")

    async with site(breaks) as address, client(address) as one:
        one.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await one.ended()


@pytest.mark.each_loop
async def test_server_buffers_at_most_1_mb_of_an_unread_request_body():
    entered, go_on, size = asyncio.Event(), asyncio.Event(), 20_000_000

    async def late(request: web.Request) -> web.StreamResponse:
        entered.set()
        await go_on.wait()
        ahead = request.content.total_bytes
        return web.Response(text=f"{len(await request.content.read()) == size} {ahead < 1_000_000}")

    async with site(late) as address, client(address) as hasty:
        hasty.send(b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size + bytes(size))
        await entered.wait()
        await asyncio.sleep(0.2)
        go_on.set()
        assert await hasty.answer() == b"True True"


COSTLY = {
    "a length of zeros": head("GET / HTTP/1.1", f"Content-Length: {'0' * 5000}"),
    "very many lines": head("GET / HTTP/1.1", *["a:"] * 8000),
    "very many fields": head(f"GET /?{'a&' * 500} HTTP/1.1"),
    "a long query": head(f"GET /?q={'%ff' * 10_000} HTTP/1.1"),
}


@pytest.mark.parametrize("request_", COSTLY.values(), ids=COSTLY)
async def test_server_answers_400_with_little_cpu_time_when_a_request_is_costly_to_parse(request_: bytes):
    async def read(request: web.Request) -> web.StreamResponse:
        return web.Response(text=str(len(request.query)))

    # The first request may import modules.
    assert (await asked(read, head("GET /?q HTTP/1.1"))).endswith(b"1")
    async with site(read) as address:

        async def ask() -> float:
            async with client(address) as one:
                with Effort() as spent:
                    one.send(request_)
                    assert b" 400 " in (await one.rest())[:13]
            return spent.units

        # It takes 0.3 on a slow machine.
        await check_effort(ask, below=0.6)


async def test_server_cancels_a_page_when_its_client_disconnects():
    begun, ended = asyncio.Event(), asyncio.Event()

    async def waits(_: web.Request) -> web.StreamResponse:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return web.Response()

    async with site(waits) as address:
        async with client(address) as one:
            one.send(head("GET / HTTP/1.1", "Content-Length: 5"))
            await begun.wait()
        async with asyncio.timeout(10):
            await ended.wait()
