"""Requests of every form, and the answers that each of them gets, byte for byte."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from tests.support.effort import Effort, check_effort
from tests.support.served_pages import ServePages
from tests.unit.server.test_connection import client, site


async def echo(request: web.Request) -> web.StreamResponse:
    return web.Response(text=f"{request.path}  {','.join(request.query.getall('q', []))}")


async def streamed(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for piece in (b"one", b"", b"two"):
        await response.write(piece)
    return response


async def asked(page: Handler, request: bytes) -> bytes:
    """Return all bytes that the server sends until it closes the connection."""
    async with site(page) as address, client(address) as one:
        one.send(request)
        return await one.rest()


def head(line: str, *lines: str) -> bytes:
    return "\r\n".join([line, "Host: x", "Connection: close", *lines, "", ""]).encode()


@pytest.mark.parametrize("first", [b"\x16\x03\x01\x02\x00", b"\x00", b" GET / HTTP/1.1\r\n"])
async def test_server_answers_400_at_once_when_bytes_cannot_begin_a_request(
    serve_pages: ServePages, first: bytes
):
    """Check bytes like those of TLS: an https client of a plain port must not wait."""
    pages = await serve_pages({"/": echo})
    async with client(pages.address) as one:
        one.send(first)
        assert b" 400 " in (await one.rest())[:13]


@pytest.mark.parametrize(
    ("size", "lines", "status"), [(2048, 100, b"200"), (2049, 2, b"400"), (2, 101, b"400")]
)
async def test_server_refuses_more_than_2048_bytes_of_path_and_query_or_100_lines(
    size: int, lines: int, status: bytes
):
    more = ["a: b"] * (lines - 2)
    answer = await asked(echo, head(f"GET {'/?'.ljust(size, 'q')} HTTP/1.1", *more))
    assert answer[9:12] == status


@pytest.mark.parametrize("page", [echo, streamed])
async def test_response_to_head_has_no_body(page: Handler):
    answer = await asked(page, head("HEAD / HTTP/1.1"))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\n")


async def test_stream_to_an_http_1_0_client_ends_with_the_connection():
    answer = await asked(streamed, b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert b"chunked" not in answer
    assert b"\r\nConnection: close\r\n" in answer
    assert answer.endswith(b"\r\n\r\nonetwo")


@pytest.mark.parametrize(("version", "stays"), [("HTTP/1.1", True), ("HTTP/1.0", False)])
async def test_http_1_1_connection_stays_open_after_a_response(version: str, stays: bool):
    async with site(echo) as address, client(address) as one:
        one.send(f"GET / {version}\r\nHost: x\r\nConnection: keep-alive\r\n\r\n".encode())
        assert await one.answer() == b"/  "
        if stays:
            assert await one.ask() == b"/  "
        else:
            await one.ended()


async def test_server_sends_100_continue_before_the_body():
    async def reads(request: web.Request) -> web.StreamResponse:
        return web.Response(body=await request.read())

    async with site(reads) as address, client(address) as polite:
        polite.send(b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
        async with asyncio.timeout(10):
            assert await polite._reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        polite.send(b"body")
        assert await polite.answer() == b"body"


async def test_connection_is_closed_when_a_page_fails_during_its_response():
    async def breaks(request: web.Request) -> web.StreamResponse:
        await streamed(request)
        raise LookupError("a fault of ours")

    async with site(breaks) as address, client(address) as one:
        one.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await one.ended()


@pytest.mark.each_loop
async def test_server_reads_only_a_part_of_a_request_body_ahead():
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
async def test_server_refuses_costly_requests_at_low_cost(request_: bytes):
    async def read(request: web.Request) -> web.StreamResponse:
        return web.Response(text=str(len(request.query)))

    # The first time, something may be imported.
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
