"""Handlers of operators: beside `/metrics`, and on a server of their own."""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import aiohttp
import pytest
import trustme
from aiohttp import web
from structlog.testing import capture_logs

from manager.kube.transport import Transport
from manager.process.manager import CannotStart, Manager
from manager.server import HttpServer, Limits
from manager.server.server import CannotServe, serve
from manager.telemetry.metrics import Metrics
from manager.util.address import BindAddress
from manager.util.program import Program
from tests.support.certificates import trusting
from tests.support.eventually import eventually_async
from tests.support.scripted_wire import ScriptedWire
from tests.unit.conftest import LogLines
from tests.unit.server.test_connection import client, refuses, site

HERE = BindAddress("127.0.0.1", 0)
LONG = 30.0

routes = web.RouteTableDef()


@routes.get("/hello/{name}")
async def greet(request: web.Request) -> web.Response:
    return web.Response(text=f"hello {request.match_info['name']}")


@routes.post("/echo")
async def echo(request: web.Request) -> web.Response:
    return web.Response(body=await request.read())


class Callbacks:
    """A manager whose operators have handlers of their own."""

    def __init__(self) -> None:
        metrics, rng = Metrics(), random.Random(1)
        transport = Transport(ScriptedWire(), metrics=metrics, rng=rng, user_agent="test")
        self.manager = Manager(
            transport, program=Program("test", "0"), metrics=metrics, rng=rng, identity="test"
        )
        self.stop = asyncio.Event()

    @asynccontextmanager
    async def running(self, server: HttpServer, *more: web.RouteDef) -> AsyncIterator[str]:
        """Run the manager with routes on a separate server, and yield the address of the server."""
        self.manager.add_routes([*more, *routes], server=server)
        with capture_logs() as lines:
            running = asyncio.create_task(self.manager.run(self.stop))
            try:
                yield await eventually_async(partial(served_address, lines))
            finally:
                self.stop.set()
                await running


async def served_address(lines: LogLines) -> str:
    """Return the first address that the log names as served."""
    return str(next(line for line in lines if line["event"] == "serving")["address"])


async def answered(url: str, data: bytes | io.BytesIO | None = None) -> tuple[int, str]:
    method = "GET" if data is None else "POST"
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, data=data, ssl=trusting()) as answer,
    ):
        return answer.status, await answer.text()


async def test_server_serves_routes_added_after_its_start():
    async with serve("pages", HERE, [web.get("/metrics", greet)]) as server:
        assert (await answered(f"http://{server.address}/hello/ann"))[0] == 404
        await server.add_routes(routes)
        assert await answered(f"http://{server.address}/hello/ann") == (200, "hello ann")
        assert await answered(f"http://{server.address}/echo", b"text") == (200, "text")


@pytest.mark.parametrize(
    ("added", "problem"),
    [
        ([web.get("/metrics", greet)], "cannot serve pages: GET /metrics is there twice"),
        ([web.get("metrics", greet)], "path should be started with /"),
        ([web.get("/{name", greet)], "Invalid path"),
    ],
    ids=["twice", "relative", "malformed"],
)
async def test_server_refuses_an_invalid_route(added: list[web.RouteDef], problem: str):
    async with serve("pages", HERE, [web.get("/metrics", greet), *routes]) as server:
        with pytest.raises(CannotServe, match=problem):
            await server.add_routes(added)
        assert await answered(f"http://{server.address}/hello/ann") == (200, "hello ann")


async def test_handler_reads_at_most_1_mib_of_a_body():
    async with serve("pages", HERE, routes) as server:
        url = f"http://{server.address}/echo"
        assert (await answered(url, io.BytesIO(bytes(1024 * 1024))))[0] == 200
        assert (await answered(url, io.BytesIO(bytes(1024 * 1024 + 1))))[0] == 413


async def test_response_headers_contain_no_server_version_and_forbid_content_sniffing():
    async def streamed(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        return response

    for page in (greet, streamed):
        async with site(page) as address, client(address) as one:
            one.send(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = await one.rest()
        assert b"\r\nX-Content-Type-Options: nosniff\r\n" in answer
        assert b"aiohttp" not in answer


@pytest.mark.each_loop
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_routes_on_a_separate_server_are_served_until_the_manager_has_stopped(
    scheme: str, tmp_path: Path
):
    entered, answer = asyncio.Event(), asyncio.Event()

    async def waits(request: web.Request) -> web.Response:
        entered.set()
        await answer.wait()
        return web.Response(text="done")

    files = {}
    if scheme == "https":
        files = {"cert_file": tmp_path / "tls.crt", "key_file": tmp_path / "tls.key"}
        issued = trustme.CA().issue_cert("localhost")
        issued.cert_chain_pems[0].write_to_path(str(files["cert_file"]))
        issued.private_key_pem.write_to_path(str(files["key_file"]))
    callbacks = Callbacks()
    server = HttpServer(name="callbacks", address=HERE, limits=Limits(drain=LONG), **files)
    async with callbacks.running(server, web.get("/wait", waits)) as address:
        assert await answered(f"{scheme}://{address}/hello/ann") == (200, "hello ann")
        waiting = asyncio.create_task(answered(f"{scheme}://{address}/wait"))
        await entered.wait()
        callbacks.stop.set()
        await eventually_async(lambda: refuses(BindAddress(HERE.host, int(address.rpartition(":")[2]))))
        answer.set()
        assert await waiting == (200, "done")
    assert callbacks.manager.certificates.keys() == ({"callbacks"} if files else set())


async def test_http_server_without_an_address_serves_nothing(log_lines: LogLines):
    callbacks = Callbacks()
    callbacks.manager.add_routes(routes, server=HttpServer(name="callbacks", address=None))
    callbacks.stop.set()
    await callbacks.manager.run(callbacks.stop)
    assert [line for line in log_lines if line["event"] == "serving"] == []


async def test_manager_cannot_start_when_the_port_of_a_server_is_in_use():
    async with serve("pages", HERE, routes) as taken:
        callbacks = Callbacks()
        server = HttpServer(name="callbacks", address=taken.address)
        callbacks.manager.add_routes(routes, server=server)
        told = f"cannot serve callbacks on {taken.address}: Address already in use"
        with pytest.raises(CannotStart, match=told):
            await callbacks.manager.run(callbacks.stop)


def test_http_server_requires_certificate_and_key_together():
    with pytest.raises(ValueError, match="the server of callbacks needs both cert_file and key_file"):
        HttpServer(name="callbacks", address=None, cert_file=Path("tls.crt"))
