from __future__ import annotations

import asyncio
import ssl
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import aiohttp
import pytest
import trustme
from aiohttp import web

from manager.address import BindAddress
from manager.http.server import CannotServe, serve
from manager.tls import CertificateFiles, SelfSigned, ServedCertificate, served

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


async def hello(request: web.Request) -> web.Response:
    return web.Response(text="hello")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "RECHECK_INTERVAL", 0.01)


def site(secret: Secret) -> AbstractAsyncContextManager[BindAddress]:
    return serve("pages", ANY_PORT, {"/": hello}, certificate=secret.certificate)


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def presented(address: BindAddress, context: ssl.SSLContext, name: str | None) -> bytes:
    """The certificate that a new connection is shown."""
    _, writer = await asyncio.open_connection("127.0.0.1", address.port, ssl=context, server_hostname=name)
    certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return certificate


async def until_another_is_presented(than: bytes, address: BindAddress, context: ssl.SSLContext) -> None:
    async with asyncio.timeout(10):
        while await presented(address, context, "localhost") == than:
            pass


# A client that is given an IP address sends no server name: Prometheus and the kubelet do so.
@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
@pytest.mark.each_loop
async def test_another_certificate_is_presented_once_the_secret_has_it(
    authority: trustme.CA, secret: Secret, name: str
):
    client = trusting(authority)
    async with site(secret) as address:
        first = await presented(address, client, name)
        secret.renew()
        await until_another_is_presented(first, address, client)
        assert await presented(address, client, name) != first


@pytest.mark.each_loop
async def test_an_open_connection_outlives_the_certificate_it_began_with(
    authority: trustme.CA, secret: Secret
):
    client = trusting(authority)
    async with site(secret) as address:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", address.port, ssl=client, server_hostname="localhost"
        )
        for _ in range(2):
            before = await presented(address, client, "localhost")
            secret.renew()
            await until_another_is_presented(before, address, client)
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200 OK")
        writer.close()
        await writer.wait_closed()


@pytest.mark.each_loop
async def test_a_client_with_tls_1_1_is_refused(authority: trustme.CA, secret: Secret):
    client = trusting(authority)
    async with site(secret) as address:
        client.minimum_version = client.maximum_version = ssl.TLSVersion.TLSv1_2
        assert await presented(address, client, "localhost")
        with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
            client.minimum_version = ssl.TLSVersion.TLSv1_1
        with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
            client.maximum_version = ssl.TLSVersion.TLSv1_1
        client.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises(OSError):  # noqa: PT011 - a reset or an alert, as it comes
            await presented(address, client, "localhost")


@pytest.mark.each_loop
async def test_no_client_gets_tls_1_3_in_which_it_could_have_keys_changed_without_end(
    authority: trustme.CA, secret: Secret
):
    client = trusting(authority)
    async with site(secret) as address:
        assert await presented(address, client, "localhost")  # one that would take either
        client.minimum_version = ssl.TLSVersion.TLSv1_3
        with pytest.raises(OSError):  # noqa: PT011 - a reset or an alert, as it comes
            await presented(address, client, "localhost")


@pytest.mark.each_loop
async def test_plain_http_gets_no_answer(secret: Secret):
    async with site(secret) as address:
        reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"hello" not in await reader.read()
        writer.close()
        await writer.wait_closed()


@pytest.mark.each_loop
async def test_a_self_signed_certificate_encrypts():
    client = ssl.create_default_context()
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    async with (
        serve("pages", ANY_PORT, {"/": hello}, certificate=ServedCertificate(SelfSigned())) as address,
        aiohttp.ClientSession() as session,
        session.get(f"https://{address}/", ssl=client) as answer,
    ):
        assert await answer.text() == "hello"


@pytest.mark.each_loop
async def test_a_certificate_that_is_not_there_is_told_in_a_sentence(tmp_path: Path):
    certificate = ServedCertificate(CertificateFiles(tmp_path / "tls.crt", tmp_path / "tls.key"))
    with pytest.raises(CannotServe) as error:
        async with serve("metrics", ANY_PORT, {}, certificate=certificate):
            pytest.fail("it was served")
    assert str(error.value) == (
        f"cannot serve metrics on 127.0.0.1:0: {tmp_path}/tls.crt cannot be read: No such file or directory"
    )
