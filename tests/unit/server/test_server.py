from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import aiohttp
import pytest
import trustme
from aiohttp import web

from manager.server import Limits
from manager.server.server import CannotServe
from manager.tls import served
from manager.tls.served import CertificateFiles, ServedCertificate
from manager.util.address import BindAddress
from tests.support.certificates import trusting
from tests.support.served_pages import serving
from tests.unit.conftest import LogLines

ANY_PORT = BindAddress("127.0.0.1", 0)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secret(authority: trustme.CA, tmp_path: Path) -> Secret:
    return Secret(authority, tmp_path / "secret")


class Secret:
    """A folder as the kubelet mounts a Secret: `..data` is a link, and is swapped."""

    def __init__(self, authority: trustme.CA, folder: Path) -> None:
        self._authority = authority
        self._version = 0
        self.folder = folder
        folder.mkdir()
        for name in ("tls.crt", "tls.key"):
            (folder / name).symlink_to(f"..data/{name}")
        self.renew()

    def renew(self) -> None:
        self._version += 1
        version = self.folder / f"..version_{self._version}"
        version.mkdir()
        issued = self._authority.issue_cert("localhost", "127.0.0.1")
        (version / "tls.crt").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        (version / "tls.key").write_bytes(issued.private_key_pem.bytes())
        link = self.folder / "..data_tmp"
        link.symlink_to(version.name)
        link.replace(self.folder / "..data")

    @property
    def certificate(self) -> ServedCertificate:
        return ServedCertificate(CertificateFiles(self.folder / "tls.crt", self.folder / "tls.key"))


async def hello(request: web.Request) -> web.StreamResponse:
    return web.Response(text="hello")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "RECHECK_INTERVAL", 0.01)


def site(secret: Secret) -> AbstractAsyncContextManager[BindAddress]:
    return serving("pages", ANY_PORT, {"/": hello}, certificate=secret.certificate)


async def presented(address: BindAddress, context: ssl.SSLContext, name: str | None) -> bytes:
    """Return the server's certificate on a new connection."""
    _, writer = await asyncio.open_connection("127.0.0.1", address.port, ssl=context, server_hostname=name)
    certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return certificate


async def until_another_is_presented(
    than: bytes, address: BindAddress, context: ssl.SSLContext, name: str
) -> None:
    async with asyncio.timeout(10):
        while await presented(address, context, name) == than:
            pass


# A client that is given an IP address sends no server name: Prometheus and the kubelet do so.
@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
@pytest.mark.each_loop
async def test_https_server_presents_a_renewed_certificate_and_keeps_open_connections(
    authority: trustme.CA, secret: Secret, name: str
):
    client = trusting(authority.cert_pem.bytes())
    async with site(secret) as address:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", address.port, ssl=client, server_hostname=name
        )
        for _ in range(2):
            before = await presented(address, client, name)
            secret.renew()
            await until_another_is_presented(before, address, client, name)
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200 OK")
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_3])
@pytest.mark.filterwarnings("ignore:.*TLSv1_1 is deprecated:DeprecationWarning")
@pytest.mark.each_loop
async def test_server_refuses_clients_without_tls_1_2(
    authority: trustme.CA, secret: Secret, version: ssl.TLSVersion
):
    """TLS 1.3 allows endless key updates."""
    client = trusting(authority.cert_pem.bytes())
    async with site(secret) as address:
        assert await presented(address, client, "localhost")  # one that would take either
        client.set_ciphers("ALL:@SECLEVEL=0")
        client.maximum_version = ssl.TLSVersion.MAXIMUM_SUPPORTED
        client.minimum_version = version
        client.maximum_version = version
        with pytest.raises(OSError):  # noqa: PT011 - a reset or an alert, as it comes
            await presented(address, client, "localhost")


async def fetch(address: BindAddress, host: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{address.port}/") as answer:
        return await answer.text()


@pytest.mark.parametrize("has_ipv6", [socket.has_dualstack_ipv6(), False])
async def test_serve_listens_on_every_interface_when_the_address_has_no_host(
    has_ipv6: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: has_ipv6)
    async with serving("pages", BindAddress("", 0), {"/": hello}) as address:
        assert await fetch(address, "127.0.0.1") == "hello"
        if has_ipv6:
            assert await fetch(address, "[::1]") == "hello"


@pytest.mark.parametrize("host", ["127.0.0.1", ""])
async def test_serve_error_names_a_port_in_use(host: str):
    async with serving("pages", BindAddress(host, 0), {}) as taken:
        with pytest.raises(CannotServe) as error:
            async with serving("metrics", taken, {}):
                pytest.fail("it was served")
    assert str(error.value) == f"cannot serve metrics on {taken}: Address already in use"


@pytest.mark.parametrize(
    ("host", "problem"), [("192.0.2.1", "Cannot assign requested address"), ("nowhere.invalid", "")]
)
async def test_serve_error_names_a_host_that_is_not_this_machine(host: str, problem: str):
    with pytest.raises(CannotServe, match=f"^cannot serve metrics on {host}:0: {problem}"):
        async with serving("metrics", BindAddress(host, 0), {}, any_port=True):
            pytest.fail("it was served")


@pytest.mark.parametrize("host", ["127.0.0.1", ""])
async def test_serve_uses_another_port_when_the_address_is_only_a_default(host: str, log_lines: LogLines):
    async with (
        serving("pages", BindAddress(host, 0), {}) as taken,
        serving("console", taken, {"/": hello}, flag="--console-bind-address", any_port=True) as address,
    ):
        assert (address.host, address.port != taken.port) == (host, True)
        assert await fetch(address, "127.0.0.1") == "hello"
    [warning] = [line["event"] for line in log_lines if line["log_level"] == "warning"]
    assert warning == (
        f"{taken} is in use, so console is served on another port; --console-bind-address sets one"
    )


async def test_server_port_is_free_again_at_once():
    async with serving("pages", ANY_PORT, {"/": hello}) as address:
        await fetch(address, "127.0.0.1")
    async with serving("pages", address, {"/": hello}):
        assert await fetch(address, "127.0.0.1") == "hello"


async def test_server_closes_each_connection_after_its_response_when_it_is_about_to_stop():
    leaving = False

    async def sends_itself(request: web.Request) -> web.StreamResponse:
        response = web.Response(text="hello")
        await response.prepare(request)
        await response.write_eof()
        return response

    pages = {"/": hello, "/itself": sends_itself}
    async with (
        serving("pages", ANY_PORT, pages, leaving=lambda: leaving) as address,
        aiohttp.ClientSession() as session,
    ):
        for path in pages:
            for leaving in (False, True):
                async with session.get(f"http://{address}{path}") as answer:
                    assert await answer.text() == "hello"
                    assert answer.headers.get("Connection") == ("close" if leaving else None)


async def test_server_stop_ends_a_request_that_takes_longer_than_the_drain_limit():
    started = asyncio.Event()

    async def stuck(request: web.Request) -> web.StreamResponse:
        started.set()
        return await asyncio.Event().wait() or web.Response()

    async with serving("pages", ANY_PORT, {"/": stuck}, limits=Limits(drain=0.01)) as address:
        request = asyncio.create_task(fetch(address, "127.0.0.1"))
        await started.wait()
    with pytest.raises(aiohttp.ClientError):
        await request
