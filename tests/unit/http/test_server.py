from __future__ import annotations

import asyncio
import socket

import aiohttp
import pytest
from aiohttp import web

from manager.address import BindAddress
from manager.http.connection import Limits
from manager.http.server import CannotListen, serve

ANY_PORT = BindAddress("127.0.0.1", 0)


async def hello(request: web.Request) -> web.Response:
    return web.Response(text="hello")


async def fetch(address: BindAddress, host: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{address.port}/") as answer:
        return await answer.text()


async def test_a_page_is_there_while_the_context_lasts():
    async with serve("pages", ANY_PORT, {"/": hello}) as address:
        assert await fetch(address, "127.0.0.1") == "hello"
    with pytest.raises(aiohttp.ClientConnectorError):
        await fetch(address, "127.0.0.1")


async def test_without_a_host_every_interface_is_served():
    async with serve("pages", BindAddress("", 0), {"/": hello}) as address:
        assert await fetch(address, "127.0.0.1") == "hello"
        if socket.has_dualstack_ipv6():
            assert await fetch(address, "[::1]") == "hello"


async def test_without_a_host_a_machine_without_ipv6_is_served_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    async with serve("pages", BindAddress("", 0), {"/": hello}) as address:
        assert await fetch(address, "127.0.0.1") == "hello"


async def test_a_port_in_use_is_told_in_a_sentence():
    async with serve("pages", ANY_PORT, {}) as taken:
        with pytest.raises(CannotListen) as error:
            async with serve("metrics", taken, {}):
                pytest.fail("it was served")
    assert str(error.value) == f"cannot serve metrics on {taken}: Address already in use"


async def test_a_port_in_use_on_every_interface_is_told_too():
    async with serve("pages", BindAddress("", 0), {}) as taken:
        with pytest.raises(CannotListen, match=r"cannot serve metrics on :.*: Address already in use"):
            async with serve("metrics", taken, {}):
                pytest.fail("it was served")


async def test_an_address_that_is_not_this_machines_is_told_in_a_sentence():
    with pytest.raises(CannotListen, match=r"on 192\.0\.2\.1:0: Cannot assign"):
        async with serve("metrics", BindAddress("192.0.2.1", 0), {}):
            pytest.fail("it was served")


async def test_a_host_that_does_not_exist_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch):
    async def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    with pytest.raises(CannotListen, match="cannot serve metrics on nowhere:80: Name or service not known"):
        async with serve("metrics", BindAddress("nowhere", 80), {}):
            pytest.fail("it was served")


async def test_a_port_is_free_again_at_once():
    async with serve("pages", ANY_PORT, {"/": hello}) as address:
        await fetch(address, "127.0.0.1")
    async with serve("pages", address, {"/": hello}):
        assert await fetch(address, "127.0.0.1") == "hello"


async def test_a_server_that_leaves_says_with_each_answer_that_it_is_the_last_of_its_connection():
    leaving = False

    async def prepares_itself(request: web.Request) -> web.Response:
        response = web.Response(text="hello")
        await response.prepare(request)
        return response

    pages = {"/": hello, "/itself": prepares_itself}
    async with (
        serve("pages", ANY_PORT, pages, leaving=lambda: leaving) as address,
        aiohttp.ClientSession() as session,
    ):
        for path in pages:
            for leaving in (False, True):
                async with session.get(f"http://{address}{path}") as answer:
                    assert await answer.text() == "hello"
                    assert answer.headers.get("Connection") == ("close" if leaving else None)


async def test_a_request_that_never_ends_does_not_hold_up_the_end():
    started = asyncio.Event()

    async def stuck(request: web.Request) -> web.Response:
        started.set()
        return await asyncio.Event().wait() or web.Response()

    async with serve("pages", ANY_PORT, {"/": stuck}, limits=Limits(finish=0.01)) as address:
        request = asyncio.create_task(fetch(address, "127.0.0.1"))
        await started.wait()
    with pytest.raises(aiohttp.ClientError):
        await request
