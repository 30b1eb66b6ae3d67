"""Connections through proxies, and name resolution, on the event loops of asyncio and uvloop."""

from __future__ import annotations

import asyncio
import gc
import itertools
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from yarl import URL

from manager.kube import dial
from manager.kube.errors import ConfigError, TransportError, Unreachable
from tests.support.forwarder import Forwarder
from tests.support.ports import PortBlock
from tests.unit.kube.servers import LocalServer, ScriptedServer, end_of_answers, fetch, wire_to

pytestmark = [pytest.mark.each_loop, pytest.mark.usefixtures("closing")]


BASIC = "Basic amFuZTpzOmNyZXQ="  # jane, s:cret


class Proxy(Forwarder):
    """Proxy that forwards CONNECT requests to one server, and records them."""

    answer = b"HTTP/1.1 200 Connection established\r\n\r\n"

    def __init__(self, to: int, *, context: ssl.SSLContext | None = None) -> None:
        super().__init__(lambda: to, greet=self._answer, context=context)
        self.heads: list[list[str]] = []
        self._scheme = "http" if context is None else "https"

    @property
    def url(self) -> URL:
        return URL(f"{self._scheme}://jane:s%3Acret@127.0.0.1:{self.port}")

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2])
        writer.write(self.answer)


@pytest.mark.parametrize("tls", [False, True])
async def test_proxy_credentials_are_sent_to_the_proxy_only(authority: trustme.CA, tls: bool):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if tls else None
    if context is not None:
        authority.issue_cert("127.0.0.1").configure_cert(context)
    async with LocalServer(authority) as server, Proxy(server.port, context=context) as proxy:
        async with wire_to(server.url, authority, proxy=proxy.url) as wire:
            assert await fetch(wire) == await fetch(wire) == (200, b"")
        address = f"127.0.0.1:{server.port}"
        assert proxy.heads == [
            [f"CONNECT {address} HTTP/1.1", f"Host: {address}", f"Proxy-Authorization: {BASIC}"]
        ]
        assert "Proxy-Authorization" not in server.requests[0].headers
        assert server.connections == 1


async def test_cancelled_connection_to_a_proxy_leaves_no_unhandled_error_and_no_open_socket(
    authority: trustme.CA,
):
    unseen: list[object] = []
    sockets: set[socket.socket] = set()

    def note(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        if "future" in context:  # ignores errors of the server
            unseen.append(context)

    asyncio.get_running_loop().set_exception_handler(note)
    async with LocalServer(authority) as server, Proxy(server.port) as proxy:
        for turns in itertools.count():
            async with wire_to(server.url, authority, proxy=proxy.url) as wire:
                asking = asyncio.create_task(fetch(wire))
                for _ in range(turns):
                    await asyncio.sleep(0)
                over = asking.done()
                asking.cancel()
                await asyncio.wait([asking])
                sockets.update(wire._sockets)
            if over:
                break
        for _ in range(10):
            await asyncio.sleep(0)
        assert sockets
        assert [each for each in sockets if each.fileno() >= 0] == []
        gc.collect()
        assert unseen == []


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 200 Connection established\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
    ],
)
async def test_proxy_tunnel_stays_open_when_the_connect_response_announces_a_body(
    authority: trustme.CA, answer: bytes
):
    """A successful CONNECT response has no body (RFC 9110, 9.3.6)."""
    async with LocalServer(authority) as server, Proxy(server.port) as proxy:
        proxy.answer = answer
        async with wire_to(server.url, authority, proxy=proxy.url) as wire:
            assert await fetch(wire) == (200, b"")


async def test_dial_leaves_no_open_socket_when_the_trusted_ca_file_is_unreadable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, authority: trustme.CA
):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with Proxy(0, context=context) as proxy:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none"))
        async with wire_to("http://127.0.0.1:4711", proxy=proxy.url) as wire:
            with pytest.raises(ConfigError, match="SSL_CERT_FILE"):
                await fetch(wire)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_proxy_connection_error_names_the_proxy_when_its_certificate_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch, authority: trustme.CA, other_authority: trustme.CA, scheme: str
):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    other_authority.issue_cert("127.0.0.1").configure_cert(context)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    async with Proxy(0, context=context) as proxy:
        given = authority if scheme == "https" else None
        async with wire_to(f"{scheme}://127.0.0.1:4711", given, proxy=proxy.url) as wire:
            message = rf"^cannot connect to the proxy 127\.0\.0\.1:{proxy.port}: its certificate is not "
            with pytest.raises(Unreachable, match=message) as caught:
                await fetch(wire)
    assert isinstance(caught.value.__cause__, ssl.SSLError), "the TLS files are read again"


async def test_plain_http_request_to_a_proxy_contains_the_complete_url():
    async with LocalServer() as proxy:
        url = URL(proxy.url).with_user("jane").with_password("s:cret")
        async with wire_to("http://127.0.0.1:4711", proxy=url) as wire:
            assert await fetch(wire) == (200, b"")
        (request,) = proxy.requests
        assert request.target == "http://127.0.0.1:4711/api?a=b"
        assert request.headers["Proxy-Authorization"] == BASIC
        assert request.headers["Host"] == "127.0.0.1:4711"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 407 Who\r\nContent-Length: 0\r\n\r\n", "the proxy answered 407"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "through the proxy: the answer is no HTTP"),
        (b"", r"cannot connect to 127\.0\.0\.1:\d+ through the proxy: the connection broke"),
    ],
    ids=["refusal", "other protocol", "no response"],
)
async def test_server_is_unreachable_when_the_proxy_does_not_accept_the_connect_request(
    authority: trustme.CA, answer: bytes, message: str
):
    async with LocalServer(authority) as server, ScriptedServer() as proxy:
        proxy.play(answer, end_of_answers)
        async with wire_to(server.url, authority, proxy=URL(proxy.url)) as wire:
            with pytest.raises(Unreachable, match=message):
                await fetch(wire)
        await proxy.all_closed()


async def test_proxy_connection_error_names_the_proxy_without_its_password(authority: trustme.CA):
    with PortBlock(1) as ports:
        proxy = URL(f"http://bob:secret@127.0.0.1:{ports[0]}")
        message = rf"^cannot connect to the proxy 127\.0\.0\.1:{ports[0]}: Connection refused$"
        async with wire_to("https://127.0.0.1:4711", authority, proxy=proxy) as wire:
            with pytest.raises(Unreachable, match=message):
                await fetch(wire)


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("does-not-exist.invalid", r"\w+"),
        ("a..b", "the host name is invalid"),
        ("a" * 64 + ".b", "the host name is invalid"),
    ],
)
async def test_server_is_unreachable_when_its_host_name_cannot_be_resolved(
    authority: trustme.CA, host: str, reason: str
):
    async with wire_to(f"https://{host}", authority) as wire:
        with pytest.raises(Unreachable, match=f"cannot connect to {re.escape(host)}:443: {reason}"):
            await fetch(wire)


class SocksProxy(Forwarder):
    """SOCKS5 proxy that connects to one server and records the requested addresses."""

    def __init__(self, to: int, *, user: bytes = b"", refuses: int = 0) -> None:
        super().__init__(lambda: to, greet=self._answer)
        self.asked: list[tuple[bytes, int]] = []
        self._user, self._refuses = user, refuses

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        offered = await reader.readexactly(count)
        chosen = 2 if self._user else 0
        writer.write(bytes((5, chosen if chosen in offered else 255)))
        if chosen not in offered:
            return
        if self._user:
            _, length = await reader.readexactly(2)
            user = await reader.readexactly(length)
            [length] = await reader.readexactly(1)
            given = user + b":" + await reader.readexactly(length)
            writer.write(bytes((1, given != self._user)))
            if given != self._user:
                return
        _, _, _, kind = await reader.readexactly(4)
        length = {1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0]
        host = await reader.readexactly(length)
        self.asked.append((host, int.from_bytes(await reader.readexactly(2), "big")))
        writer.write(bytes((5, self._refuses, 0, 1)) + bytes(6))


async def test_socks_proxy_receives_the_server_address_and_the_user(authority: trustme.CA):
    async with LocalServer(authority) as server, SocksProxy(server.port, user=b"jane:s:cret") as proxy:
        url = URL(f"socks5://jane:s%3Acret@127.0.0.1:{proxy.port}")
        async with wire_to(server.url, authority, proxy=url) as wire:
            assert await fetch(wire) == await fetch(wire) == (200, b"")
        assert proxy.asked == [(bytes((127, 0, 0, 1)), server.port)]
        assert "Proxy-Authorization" not in server.requests[0].headers


async def test_plain_http_request_through_a_socks_proxy_contains_only_the_path():
    async with LocalServer() as server, SocksProxy(server.port, user=b"jane:x") as proxy:
        url = URL(f"socks5://jane:x@127.0.0.1:{proxy.port}")
        async with wire_to("http://api.test:80", proxy=url) as wire:
            assert await fetch(wire) == (200, b"")
        assert proxy.asked == [(b"api.test", 80)]
        assert "Proxy-Authorization" not in server.requests[0].headers
        assert server.requests[0].target == "/api?a=b"


@pytest.mark.parametrize(
    ("user", "refuses", "given", "said"),
    [
        (b"", 5, "", "the proxy cannot connect to the server: connection refused"),
        (b"", 99, "", "the proxy cannot connect to the server: code 99"),
        (b"jane:x", 0, "", "the proxy requires a user"),
        (b"jane:x", 0, "jane:y@", "the proxy refuses user and password"),
    ],
)
async def test_server_is_unreachable_when_the_socks_proxy_refuses_the_connection(
    user: bytes, refuses: int, given: str, said: str
):
    async with LocalServer() as server, SocksProxy(server.port, user=user, refuses=refuses) as proxy:
        url = URL(f"socks5://{given}127.0.0.1:{proxy.port}")
        async with wire_to("http://127.0.0.1:80", proxy=url) as wire:
            with pytest.raises(Unreachable, match=f"{said}$"):
                await fetch(wire)


async def test_server_is_unreachable_when_the_socks_proxy_speaks_another_protocol():
    async with LocalServer() as server:  # an HTTP server, which waits for the end of a line
        server_url = URL(server.url)
        async with wire_to("http://127.0.0.1:80", proxy=server_url.with_scheme("socks5")) as wire:
            with pytest.raises(Unreachable, match=r"cannot connect to 127\.0\.0\.1:80: "):
                await fetch(wire)


HOST, SLOW_HOST = "api.test", "slow.test"
_real = socket.getaddrinfo


class NameServer:
    """Replacement of getaddrinfo that resolves names in .test to 127.0.0.1, or waits or fails."""

    def __init__(self) -> None:
        self.questions = 0
        self.asked = threading.Semaphore(0)
        self.error: Exception | None = None
        self.slow = False
        self.answers = threading.Event()

    def getaddrinfo(self, host: str, port: int, *args: Any, flags: int = 0, **further: Any) -> list[Any]:
        if host.endswith(".test") and not flags:
            self.questions += 1
            self.asked.release()
            if self.slow or host == SLOW_HOST:
                self.answers.wait()
            if self.error is not None:
                raise self.error
            host = "127.0.0.1"
        return _real(host, port, *args, flags=flags, **further)


def by_name(server: LocalServer, host: str = HOST) -> str:
    return f"http://{host}:{server.port}"


class TestDialNames:
    @pytest.fixture
    def name_server(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
        name_server = NameServer()
        monkeypatch.setattr(socket, "getaddrinfo", name_server.getaddrinfo)
        monkeypatch.setattr(dial, "PATIENCE", 0.01)
        yield name_server
        name_server.answers.set()

    async def test_slow_dns_lookups_of_one_http_wire_do_not_delay_another_wire(self, name_server: NameServer):
        """The lease has its own HTTP wire, because its renewal must succeed within seconds."""
        async with (
            LocalServer() as server,
            wire_to(by_name(server, SLOW_HOST)) as wire,
            wire_to(by_name(server)) as lane,
        ):
            slow = [asyncio.create_task(fetch(wire)) for _ in range(100)]
            await asyncio.to_thread(name_server.asked.acquire)
            assert await fetch(lane) == (200, b"")
            assert not any(each.done() for each in slow)
            name_server.answers.set()
            assert await asyncio.gather(*slow) == [(200, b"")] * 100
        assert name_server.questions == 2, "all connections of a wire share one lookup"

    async def test_dns_cache_returns_the_last_addresses_while_a_lookup_is_slow_or_fails(
        self, name_server: NameServer
    ):
        async with LocalServer() as server, wire_to(by_name(server)) as wire:
            assert await fetch(wire) == (200, b"")
            wire.abort()
            name_server.slow = True
            assert await fetch(wire) == (200, b"")
            wire.abort()
            assert await fetch(wire) == (200, b"")
            assert name_server.questions == 2, "a lookup in progress is not repeated"
            name_server.error = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
            name_server.answers.set()
            wire.abort()
            assert await fetch(wire) == (200, b"")
            assert server.connections == 4

    @pytest.mark.parametrize("is_aborted", [True, False])
    async def test_dns_answer_opens_no_connection_after_the_wire_was_aborted_or_closed(
        self, name_server: NameServer, is_aborted: bool
    ):
        async with LocalServer() as server, wire_to(by_name(server, SLOW_HOST)) as wire:
            late = asyncio.create_task(fetch(wire))
            await asyncio.to_thread(name_server.asked.acquire)
            if is_aborted:
                wire.abort()
            else:
                await wire.aclose()
            name_server.answers.set()
            with pytest.raises(TransportError, match="connections were reset"):
                await late
            for _ in range(5):  # the server would see a connection by now
                await asyncio.sleep(0)
            assert server.connections == 0

    async def test_unresolved_host_name_is_looked_up_again_at_the_next_dial(self, name_server: NameServer):
        name_server.error = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        async with LocalServer() as server, wire_to(by_name(server)) as wire:
            for _ in range(2):
                with pytest.raises(Unreachable, match="Temporary failure in name resolution"):
                    await fetch(wire)
            name_server.error = None
            assert await fetch(wire) == (200, b"")

    async def test_ip_address_causes_no_dns_query(
        self, name_server: NameServer, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(threading, "Thread", None)
        async with LocalServer() as server, wire_to(server.url) as wire:
            assert await fetch(wire) == (200, b"")
        assert name_server.questions == 0
