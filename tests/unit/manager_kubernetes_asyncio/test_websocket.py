"""WebSockets with a real server, on the event loops of asyncio and uvloop."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import trustme
from yarl import URL

from devcluster.http_call import ApiRequest, ApiResponse, WebSocket
from devcluster.http_server import HttpServer
from manager.kube.credentials import TokenFile
from manager.kube.errors import ConfigError, ConnectionLost, Fenced, Forbidden, ProtocolError, Unauthorized
from manager.kube.http_wire import HttpWire
from manager.kube.wire import WireRequest
from tests.unit.kube.servers import IssuedCertificates, wire_to
from tests.unit.kube.test_dial import Proxy, SocksProxy

pytestmark = [pytest.mark.each_loop, pytest.mark.usefixtures("closing")]

LONGEST = 100_000


async def echo(opened: WebSocket) -> None:
    while (message := await opened.receive()) is not None:
        await opened.send(message)


class Server:
    """Server that accepts each request as a WebSocket, unless the test sets another answer."""

    def __init__(self) -> None:
        self.requests: list[ApiRequest] = []
        self.serve: Callable[[WebSocket], Awaitable[None]] = echo
        self.answer: Callable[[ApiRequest], ApiResponse | None] = lambda _: None
        self.ended = asyncio.Event()
        self.http = HttpServer(self.handle)
        self.port = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    async def handle(self, request: ApiRequest) -> ApiResponse:
        self.requests.append(request)
        if (answer := self.answer(request)) is not None:
            return answer
        protocol = request.headers["sec-websocket-protocol"].split(",")[0]
        return ApiResponse(status=101, headers={"Sec-WebSocket-Protocol": protocol}, websocket=self._serve)

    async def _serve(self, opened: WebSocket) -> None:
        try:
            await self.serve(opened)
        finally:
            self.ended.set()


@pytest.fixture
async def server(authority: trustme.CA) -> AsyncIterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server = Server()
    listener = socket.create_server(("127.0.0.1", 0))
    server.port = listener.getsockname()[1]
    await server.http.start(listener, context)
    yield server
    await server.http.stop()


@pytest.fixture
async def wire(server: Server, authority: trustme.CA) -> AsyncIterator[HttpWire]:
    async with wire_to(server.url, authority) as wire:
        yield wire


def opening(wire: HttpWire, path: str = "/a", permit: Any = None) -> Any:
    request = WireRequest("GET", path, {"User-Agent": "test"}, permit=permit)
    return wire.websocket(request, ("p", "q"), longest=LONGEST)


async def said(wire: HttpWire) -> bytes | None:
    """Send a message to the server; return the server's reply."""
    async with opening(wire) as opened:
        await opened.send_bytes(b"hello")
        found: bytes | None = await opened.receive_message()
        return found


async def test_websocket_sends_the_credentials_of_the_user_and_then_exchanges_messages(
    server: Server, authority: trustme.CA
):
    headers = [("Impersonate-User", "jane"), ("Impersonate-Group", "a")]
    async with (
        wire_to(f"{server.url}/prefix", authority, headers=headers) as wire,
        opening(wire, "/a%20b?command=x%26y&command=z") as opened,
    ):
        assert opened.protocol == "p"
        for size in (1, 70_000):
            await opened.send_bytes(bytes(size))
            assert await opened.receive_message() == bytes(size)
    (request,) = server.requests
    assert request.path == "/prefix/a b"
    assert request.query == {"command": ["x&y", "z"]}
    assert request.headers["authorization"] == "Bearer secret"
    assert request.headers["impersonate-user"] == "jane"
    assert request.headers["user-agent"] == "test"


async def test_websocket_ends_when_the_server_closes_it(server: Server, wire: HttpWire):
    async def once(opened: WebSocket) -> None:
        await opened.send(b"bye")

    server.serve = once
    async with opening(wire) as opened:
        assert await opened.receive_message() == b"bye"
        assert await opened.receive_message() is None
        assert await opened.receive_message() is None


async def flood(opened: WebSocket) -> None:
    await opened.send(bytes(LONGEST + 1))


@pytest.mark.parametrize(("serve", "error"), [(echo, ConnectionLost), (flood, ProtocolError)])
async def test_websocket_raises_an_error_for_a_broken_connection_or_an_overlong_message(
    server: Server, wire: HttpWire, serve: Any, error: type[Exception]
):
    server.serve = serve
    async with opening(wire) as opened:
        if serve is echo:
            server.http.cut_connections()
        with pytest.raises(error):
            await opened.receive_message()


async def test_http_wire_abort_closes_open_websockets(server: Server, wire: HttpWire):
    async with opening(wire) as opened:
        wire.abort()
        with pytest.raises(ConnectionLost):
            await opened.receive_message()
        await asyncio.wait_for(server.ended.wait(), 10)
    assert await said(wire) == b"hello"


async def test_websocket_sends_no_message_when_the_write_permit_check_fails(server: Server, wire: HttpWire):
    permit = Mock(side_effect=[None, None, Fenced("no more"), Fenced("no more")])
    async with opening(wire, permit=permit) as opened:
        await opened.send_bytes(b"one")
        assert await opened.receive_message() == b"one"
        with pytest.raises(Fenced):
            await opened.send_bytes(b"two")
    with pytest.raises(Fenced):
        async with opening(wire, permit=permit):
            pass
    assert len(server.requests) == 1


STATUS = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "not you"}
OTHER = ApiResponse(status=101, headers={"Sec-WebSocket-Protocol": "other"}, websocket=echo)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (ApiResponse.json(STATUS, status=403), Forbidden, r"^not you$"),
        (ApiResponse.json({}), ProtocolError, "answered 200 where a WebSocket was asked for"),
        (OTHER, ProtocolError, "chose none of the protocols p, q"),
    ],
)
async def test_websocket_raises_an_error_when_the_server_refuses_the_upgrade_or_chooses_an_unknown_protocol(
    server: Server, wire: HttpWire, answer: ApiResponse, error: type[Exception], message: str
):
    server.answer = lambda _: answer
    with pytest.raises(error, match=message):
        await said(wire)


async def test_websocket_renews_rejected_credentials_once(
    server: Server, authority: trustme.CA, tmp_path: Path
):
    token = tmp_path / "token"
    token.write_text("old")

    def judge(request: ApiRequest) -> ApiResponse | None:
        if request.headers["authorization"] == "Bearer new":
            return None
        token.write_text("new")
        return ApiResponse.json({"kind": "Status", "code": 401}, status=401)

    server.answer = judge
    credentials = TokenFile(token, label="token")
    async with wire_to(server.url, authority, credentials=credentials) as wire:
        assert await said(wire) == b"hello"
        server.answer = lambda _: ApiResponse.json({"kind": "Status", "code": 401}, status=401)
        with pytest.raises(Unauthorized):
            await said(wire)
    assert len(server.requests) == 3


async def test_websocket_renews_a_rejected_certificate_when_the_credentials_have_no_token(
    server: Server, authority: trustme.CA
):
    credentials = IssuedCertificates(authority)

    def judge(_: ApiRequest) -> ApiResponse | None:
        answer = ApiResponse.json({"kind": "Status", "code": 401}, status=401)
        return answer if credentials.count == 1 else None

    server.answer = judge
    async with wire_to(server.url, authority, credentials=credentials) as wire:
        assert await said(wire) == b"hello"
    assert len(server.requests) == credentials.count == 2


@pytest.mark.parametrize(("kind", "scheme"), [(Proxy, "http"), (SocksProxy, "socks5")])
async def test_websocket_connects_through_an_http_or_socks5_proxy(
    server: Server, authority: trustme.CA, kind: Any, scheme: str
):
    async with kind(server.port) as proxy:
        url = URL(f"{scheme}://127.0.0.1:{proxy.port}")
        async with wire_to(server.url, authority, proxy=url) as wire:
            assert await said(wire) == b"hello"


async def test_websocket_to_a_plain_http_server_through_a_proxy_is_refused():
    async with wire_to("http://127.0.0.1:1", proxy=URL("http://127.0.0.1:2")) as wire:
        with pytest.raises(ConfigError, match="a proxy for plain HTTP carries no WebSocket"):
            await said(wire)
