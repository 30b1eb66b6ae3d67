"""Requests of HttpWire: connections, credentials, TLS, aborts and write permits."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import trustme

from manager.kube.credentials import FixedCredentials, Obtained, TokenFile
from manager.kube.errors import ConnectionLost, TransportError, Unreachable
from manager.kube.http_wire import HttpWire
from manager.kube.tls import Pem, Tls, TlsFiles
from manager.kube.wire import WireRequest
from tests.unit.kube.servers import (
    GET,
    Answer,
    IssuedCertificates,
    LocalServer,
    config_for,
    fetch,
    wire_to,
)


@pytest.fixture
async def wire(server: LocalServer, authority: trustme.CA) -> AsyncIterator[HttpWire]:
    async with wire_to(server.url, authority) as wire:
        yield wire


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Yield a listening socket without a server, so that the test itself accepts and reads."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    return f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"


async def receive_some(connection: socket.socket) -> int:
    """Read a few bytes of a connection; return their number."""
    return len(await asyncio.get_running_loop().sock_recv(connection, 10))


async def test_http_wire_reuses_one_connection_for_successive_requests(wire: HttpWire, server: LocalServer):
    server.answer = lambda request: Answer(request.method.encode(), headers={"X-A": "b"})
    for method in ("GET", "POST", "PUT"):
        async with wire.exchange(WireRequest(method, "/api", {}, b"body")) as response:
            assert response.headers["x-a"] == "b"
            assert await response.read() == method.encode()
    assert server.connections == 1
    assert server.requests[1].body == b"body"
    assert wire.host == f"127.0.0.1:{server.port}"


async def test_http_wire_sends_target_and_headers_unchanged_and_adds_credentials(
    wire: HttpWire, server: LocalServer
):
    target = "/apis/a%2Fb/system:x?labelSelector=a%3Db%2Cc&fieldManager=m+n"
    await fetch(wire, WireRequest("GET", target, {"Accept": "application/json", "User-Agent": "me"}))
    (request,) = server.requests
    assert request.target == target
    assert request.headers == {
        "Host": wire.host,
        "Accept": "application/json",
        "User-Agent": "me",
        "Accept-Encoding": "identity",
        "Authorization": "Bearer secret",
    }


async def test_http_wire_adds_the_path_and_the_headers_of_its_configuration(
    server: LocalServer, authority: trustme.CA
):
    further = [("Impersonate-User", "jane")]
    async with wire_to(f"{server.url}/k8s/clusters/c-1/", authority, headers=further) as wire:
        await fetch(wire)
    assert server.requests[0].target == "/k8s/clusters/c-1/api?a=b"
    assert server.requests[0].headers["Impersonate-User"] == "jane"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://api.example.test:443", "api.example.test"),
        ("https://api.example.test:6443", "api.example.test:6443"),
        ("http://[2001:db8::1]:8080", "[2001:db8::1]:8080"),
    ],
)
async def test_host_header_omits_the_default_port_and_keeps_brackets_of_an_ipv6_address(url: str, host: str):
    lines = HttpWire(config_for(url)).head(GET, None).decode().split("\r\n")
    assert lines == ["GET /api?a=b HTTP/1.1", f"Host: {host}", "Accept-Encoding: identity", "", ""]


async def test_http_wire_closes_a_connection_when_its_unread_response_is_incomplete(
    wire: HttpWire, server: LocalServer
):
    server.answer = lambda _: Answer(b"x" * 1000, claimed_length=2000)
    async with wire.exchange(GET) as response:
        assert response.status == 200
    server.answer = lambda _: Answer(b"ok")
    assert await fetch(wire) == (200, b"ok")
    assert server.connections == 2


async def test_requests_wait_for_a_free_connection_but_streams_get_additional_connections(
    server: LocalServer, authority: trustme.CA
):
    blocked: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    server.answer = lambda request: Answer(b"s", claimed_length=9) if "watch" in request.target else blocked
    async with (
        wire_to(server.url, authority, connections=1) as wire,
        wire.exchange(WireRequest("GET", "/watch", {}, stream=True)),
    ):
        first, second = (asyncio.create_task(fetch(wire)) for _ in range(2))
        await server.until(lambda: len(server.requests) == 2)
        assert server.connections == 2
        blocked.set_result(Answer(b"ok"))
        assert await first == await second == (200, b"ok")
    assert server.connections == 2


async def test_tcp_keepalive_is_enabled_on_connections(wire: HttpWire, server: LocalServer):
    server.answer = lambda _: Answer(b"s", claimed_length=9)
    async with wire.exchange(GET), wire.exchange(WireRequest("GET", "/watch", {}, stream=True)):
        opened = list(wire._sockets)
        assert len(opened) == 2
        for each in opened:
            assert each.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            if sys.platform == "linux":
                names = socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT
                values = [each.getsockopt(socket.IPPROTO_TCP, name) for name in names]
                assert values == [15, 5, 3, 30_000]


async def test_server_certificate_is_checked_against_ca_and_server_name(
    authority: trustme.CA, other_authority: trustme.CA
):
    async with LocalServer(authority, identity="kubernetes.default") as server:
        async with wire_to(server.url, authority, tls_server_name="kubernetes.default") as wire:
            assert await fetch(wire) == (200, b"")
        for trusted, problem in (
            (authority, "IP address mismatch"),
            (other_authority, "its certificate is not trusted: unable to get local issuer"),
        ):
            async with wire_to(server.url, trusted) as wire:
                with pytest.raises(Unreachable, match=problem):
                    await fetch(wire)
        assert len(server.requests) == 1


async def test_http_wire_renews_the_token_after_a_rejection_and_at_the_end_of_its_lifetime(
    server: LocalServer, authority: trustme.CA, tmp_path: Path
):
    file = tmp_path / "token"
    file.write_text("old\n")
    good = "Bearer old"
    server.answer = lambda request: Answer(status=200 if request.headers["Authorization"] == good else 401)
    write, credentials = WireRequest("PUT", "/api", {}, b"body"), TokenFile(file, label="token")
    async with wire_to(server.url, authority, credentials=credentials) as wire:
        assert (await fetch(wire, write))[0] == 200
        file.write_text("new")
        good = "Bearer new"
        assert (await fetch(wire, write))[0] == 200
        file.write_text("newer")
        assert (await fetch(wire, write))[0] == 200
        credentials.renew_at = 0.0
        assert (await fetch(wire, write))[0] == 401
    sent = [request.headers["Authorization"].removeprefix("Bearer ") for request in server.requests]
    assert sent[:5] == ["old", "old", "new", "new", "newer"]
    assert {request.body for request in server.requests} == {b"body"}


async def test_http_wire_trusts_a_replaced_ca_file_after_the_first_tls_failure(
    authority: trustme.CA, other_authority: trustme.CA, tmp_path: Path
):
    ca = tmp_path / "ca.crt"
    authority.cert_pem.write_to_path(str(ca))
    async with LocalServer(other_authority) as server:
        config = config_for(server.url, tls=Tls(TlsFiles(authorities=Pem("ca", path=ca))))
        await config.ssl_context()
        other_authority.cert_pem.write_to_path(str(ca))
        wire = HttpWire(config)
        with pytest.raises(Unreachable):
            await fetch(wire)
        assert await fetch(wire) == (200, b"")
        await wire.aclose()


async def test_http_wire_presents_a_replaced_client_certificate_after_a_rejection(
    authority: trustme.CA, tmp_path: Path
):
    def write(name: str) -> None:
        issued = authority.issue_cert(f"{name}.test", common_name=name)
        issued.cert_chain_pems[0].write_to_path(str(tmp_path / "crt"))
        issued.private_key_pem.write_to_path(str(tmp_path / "key"))

    write("first")
    async with LocalServer(authority, requires_certificate=True) as server:
        files = TlsFiles(
            authorities=Pem("ca", data=authority.cert_pem.bytes()),
            certificate=Pem("crt", path=tmp_path / "crt"),
            key=Pem("key", path=tmp_path / "key"),
        )
        async with wire_to(server.url, tls=Tls(files)) as wire:
            await fetch(wire)
            write("second")
            server.answer = lambda request: Answer(status=401 if request.client == "first" else 200)
            assert (await fetch(wire))[0] == 401
            assert (await fetch(wire))[0] == 200
        assert [request.client for request in server.requests] == ["first", "first", "second"]


async def test_http_wire_renews_a_rejected_certificate_when_the_credentials_have_no_token(
    authority: trustme.CA,
):
    credentials = IssuedCertificates(authority)
    async with (
        LocalServer(authority, requires_certificate=True) as server,
        wire_to(server.url, authority, credentials=credentials) as wire,
    ):
        server.answer = lambda request: Answer(status=401 if request.client == "1" else 200)
        assert await asyncio.gather(*(fetch(wire) for _ in range(3))) == [(200, b"")] * 3
        server.answer = lambda _: Answer(status=401)
        assert (await fetch(wire))[0] == 401
        assert server.requests[-1].client == "2"
    assert credentials.count == 2


WRITE = WireRequest("PUT", "/api", {}, b"body")
SIZE = 50_000_000
"""Size in bytes of a body that is larger than all buffers between client and server."""


async def write_to(wire: HttpWire, request: WireRequest = WRITE) -> int:
    return (await fetch(wire, request))[0]


async def receive(connection: socket.socket) -> int:
    """Read a connection until the client resets it; return the number of bytes."""
    received = 0
    for _ in range(5):  # lets the client run, as a server in another process does
        await asyncio.sleep(0)
    with contextlib.suppress(ConnectionResetError):
        while data := await asyncio.get_running_loop().sock_recv(connection, 1_000_000):
            received += len(data)
        raise AssertionError("the connection was closed without a reset")
    return received


class SlowCredentials(FixedCredentials):
    """Credentials that arrive only after the test allows it."""

    def __init__(self) -> None:
        super().__init__(None)
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    async def obtain(self) -> Obtained:
        self.asked.set()
        await self.go_on.wait()
        return await super().obtain()


@pytest.mark.each_loop
@pytest.mark.usefixtures("closing")
class TestHttpWireAbort:
    @pytest.mark.parametrize("tls", [True, False], ids=["tls", "plain"])
    async def test_abort_raises_connection_lost_for_requests_in_flight_and_resets_connections(
        self, authority: trustme.CA, tls: bool
    ):
        given = authority if tls else None
        async with LocalServer(given) as server, wire_to(server.url, given) as wire:
            never = asyncio.get_running_loop().create_future()
            server.answer = lambda _: never
            writes = [asyncio.create_task(write_to(wire)) for _ in range(3)]
            await server.until(lambda: len(server.requests) == 3)
            wire.abort()
            for write in writes:
                with pytest.raises(ConnectionLost):
                    await write
            server.answer = lambda _: Answer()
            assert await write_to(wire) == 200
            assert server.connections == 4
            never.set_result(Answer(b"x" * 10_000_000))
            await server.until(lambda: len(server.errors) == 3)
            assert {type(error) for error in server.errors} <= {ConnectionResetError, BrokenPipeError}

    async def test_abort_discards_bytes_that_are_not_sent_yet(self, listener: socket.socket):
        async with wire_to(url_of(listener)) as wire:
            write = asyncio.create_task(write_to(wire, WireRequest("PUT", "/api", {}, b"x" * SIZE)))
            accepted, _ = await asyncio.get_running_loop().sock_accept(listener)
            with accepted:
                # The server reads a few bytes and then stops reading.
                received = await receive_some(accepted)
                wire.abort()
                with pytest.raises(ConnectionLost):
                    await write
                assert received + await receive(accepted) < SIZE

    async def test_cancelled_write_sends_no_more_bytes(self, listener: socket.socket):
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        async with wire_to(url_of(listener)) as wire:
            # The socket buffer of the client holds all of it, but the receive buffer of the server does not.
            size = 200_000
            write = asyncio.create_task(write_to(wire, WireRequest("PUT", "/api", {}, b"x" * size)))
            accepted, _ = await asyncio.get_running_loop().sock_accept(listener)
            with accepted:
                received = await receive_some(accepted)
                write.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await write
                assert received + await receive(accepted) < size

    async def test_write_aborted_while_connecting_is_not_sent(
        self, authority: trustme.CA, listener: socket.socket
    ):
        async with wire_to(url_of(listener, "https"), authority) as wire:
            write = asyncio.create_task(write_to(wire))
            accepted, _ = await asyncio.get_running_loop().sock_accept(listener)
            with accepted:
                assert await asyncio.get_running_loop().sock_recv(accepted, 10_000)  # the ClientHello
                wire.abort()
                with pytest.raises(TransportError):
                    await write
                assert await asyncio.get_running_loop().sock_recv(accepted, 10_000) == b""
            with pytest.raises(BlockingIOError):  # there is no second connection
                listener.accept()

    async def test_write_aborted_while_waiting_for_a_connection_is_not_sent(self, authority: trustme.CA):
        async with LocalServer(authority) as server, wire_to(server.url, authority, connections=1) as wire:
            never = asyncio.get_running_loop().create_future()
            server.answer = lambda _: never
            writes = [asyncio.create_task(write_to(wire)) for _ in range(5)]
            await server.until(lambda: server.requests)
            wire.abort()
            for write in writes:
                with pytest.raises(ConnectionLost):
                    await write
            assert len(server.requests) == 1

    async def test_write_aborted_while_waiting_for_credentials_is_not_sent(self, authority: trustme.CA):
        credentials = SlowCredentials()
        async with (
            LocalServer(authority) as server,
            wire_to(server.url, authority, credentials=credentials) as wire,
        ):
            write = asyncio.create_task(write_to(wire))
            await credentials.asked.wait()
            wire.abort()
            credentials.go_on.set()
            with pytest.raises(ConnectionLost):
                await write
            assert await write_to(wire) == 200
            assert len(server.requests) == 1


class NotPermittedError(Exception):
    pass


def permit(times: int) -> Callable[[], None]:
    """Return a permit that passes its first `times` checks; all later checks raise NotPermittedError."""
    left = iter(range(times))

    def ask() -> None:
        if next(left, None) is None:
            raise NotPermittedError

    return ask


async def put(wire: HttpWire, body: bytes | None = b"body", permit: Callable[[], None] | None = None) -> int:
    return await write_to(wire, WireRequest("PUT", "/api", {}, body, permit=permit))


class TestHttpWirePermit:
    @pytest.fixture
    async def wire(self, server: LocalServer, authority: trustme.CA) -> AsyncIterator[HttpWire]:
        async with wire_to(server.url, authority, connections=1) as wire:
            yield wire

    @pytest.mark.parametrize(
        "body", [None, b"", b"body", b"x" * 3_000_000], ids=["none", "empty", "small", "large"]
    )
    async def test_write_is_not_sent_and_its_connection_is_reused_when_the_permit_check_fails(
        self, wire: HttpWire, server: LocalServer, body: bytes | None
    ):
        for _ in range(3):
            with pytest.raises(NotPermittedError):
                await put(wire, body, permit(0))
        assert server.requests == []
        # The connection is reused, because nothing was sent on it.
        assert await put(wire, body, permit(100)) == 200
        (request,) = server.requests
        assert request.body == (body or b"")
        assert request.headers["Content-Length"] == str(len(body or b""))
        assert server.connections == 1

    async def test_http_wire_checks_the_write_permit_only_after_it_has_a_connection(
        self, wire: HttpWire, server: LocalServer
    ):
        blocked: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        server.answer = lambda _: blocked
        asked: list[int] = []
        first = asyncio.create_task(put(wire))
        await server.until(lambda: server.requests)
        second = asyncio.create_task(put(wire, permit=lambda: asked.append(len(server.requests))))
        for _ in range(3):
            await asyncio.sleep(0)
        assert asked == []
        blocked.set_result(Answer())
        await first
        await second
        assert asked == [1]

    async def test_large_write_is_aborted_when_its_permit_ends_during_sending(
        self, wire: HttpWire, server: LocalServer
    ):
        with pytest.raises(NotPermittedError):
            await put(wire, b"x" * 3_000_000, permit(2))
        assert await put(wire) == 200
        assert [request.body for request in server.requests] == [b"body"]
        assert server.connections == 2
