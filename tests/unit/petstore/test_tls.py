"""TLS of the store: client authentication, trust, and renewed or invalid certificates."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from devcluster.access.tokens import private_pem
from petstore.cli import main
from petstore.client import PetStoreClient, Unreachable
from petstore.server import PetStoreServer, ServerOptions
from petstore.tls import ServerTls, Tls, TlsFiles, TlsUnusable
from tests.support.certificates import Authority, signing_key
from tests.support.petstores import LOOPBACK, pet

NAMES = ("pets.example", "127.0.0.1")


class Folder:
    """The folder with the TLS files of a server or a client."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.ca, self.cert, self.key = path / "ca.crt", path / "tls.crt", path / "tls.key"
        self._time = 1

    def write(self, ca: bytes, pair: tuple[bytes, bytes]) -> TlsFiles:
        self._time += 1
        for path, content in ((self.ca, ca), (self.cert, pair[0]), (self.key, pair[1])):
            path.write_bytes(content)
            os.utime(path, (self._time, self._time))  # a new time even if the file system's clock is coarse
        return TlsFiles(ca_file=self.ca, cert_file=self.cert, key_file=self.key)


class World:
    """The TLS files of a server and of a client, each with its own CA."""

    def __init__(self, path: Path) -> None:
        self.server_ca, self.client_ca, self.stranger = (Authority(name) for name in ("a", "b", "c"))
        self.server, self.client = Folder(path / "server"), Folder(path / "client")
        self.server_files = self.server.write(self.client_ca.pem, self.server_ca.server(*NAMES))
        self.client_files = self.client.write(self.server_ca.pem, self.client_ca.user("manager"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@asynccontextmanager
async def serving(files: TlsFiles) -> AsyncIterator[str]:
    async with PetStoreServer(ServerOptions(bind_address=LOOPBACK, tls=files, grace=0.1)) as server:
        yield str(server.address)


async def ask(address: str, files: TlsFiles, server_name: str | None = None) -> None:
    """Make one call with a new client; raise PetStoreError if it fails."""
    tls = await asyncio.to_thread(Tls.of_client, files)
    async with PetStoreClient(address, timeout=20, tls=tls, server_name=server_name) as client:
        assert await client.add([pet()])


async def test_store_serves_only_a_client_with_a_trusted_certificate(world: World, tmp_path: Path):
    stranger = Folder(tmp_path / "stranger").write(world.server_ca.pem, world.stranger.user("manager"))
    async with serving(world.server_files) as address:
        for files in (TlsFiles(ca_file=world.client.ca), stranger, TlsFiles()):
            with pytest.raises(Unreachable):
                await ask(address, files)
        await ask(address, world.client_files)
        await ask(address, world.client_files, "pets.example")


async def test_client_refuses_a_store_whose_certificate_has_another_ca_or_name(world: World):
    async with serving(world.server_files) as address:
        for files, name in ((TlsFiles(ca_file=world.server.ca), None), (world.client_files, "other.example")):
            with pytest.raises(Unreachable):
                await ask(address, files, name)


async def test_store_uses_renewed_certificates_and_ignores_invalid_certificates(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(Tls, "look_every", 0.0)
    renewed_ca = Authority("renewed")
    async with serving(world.server_files) as address:
        tls = await asyncio.to_thread(Tls.of_client, world.client_files)
        async with PetStoreClient(address, timeout=20, tls=tls) as client:
            await client.add([pet()])

            def renew_both() -> None:
                world.server.write(renewed_ca.pem, renewed_ca.server(*NAMES))
                world.client.write(renewed_ca.pem, renewed_ca.user("manager"))

            await asyncio.to_thread(renew_both)
            await until_served(address, world.client_files)
            await client.add([pet()])
            assert len(client._channels) == 2

            def spoil_both() -> None:
                """Write an empty client key, and a server key of a type that gRPC clients do not know."""
                world.server.key.write_bytes(private_pem(ec.generate_private_key(ec.SECP256K1())))
                world.client.key.write_bytes(b"")

            await asyncio.to_thread(spoil_both)
            await client.add([pet()])
            # The store reads its files when a client connects.
            _, writer = await asyncio.open_connection(*address.split(":"))
            while sum("continuing with the earlier ones" in line for line in caplog.messages) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            writer.close()
            await writer.wait_closed()
            await client.add([pet()])

            await asyncio.to_thread(renew_both)
            await until_served(address, world.client_files)
            await client.add([pet()])


async def until_served(address: str, files: TlsFiles) -> None:
    """Wait until the store has read its files again."""
    async with asyncio.timeout(60):
        while True:
            with suppress(Unreachable):
                return await ask(address, files)


WRONG = {
    "a missing file": ("key_file", None, "tls.key: No such file or directory"),
    "no certificate": ("cert_file", b"nothing", "tls.crt: there is no certificate in PEM"),
    "no key": ("key_file", b"nothing", "tls.key: there is no private key in PEM"),
    "another's key": ("key_file", signing_key(), "tls.key is not the key of"),
    "a key on a curve that gRPC does not know": (
        "key_file",
        private_pem(ec.generate_private_key(ec.SECP256K1())),
        "tls.key: a key on the curve P-256 or P-384, or of RSA with at least 2048 bits, is expected",
    ),
    "no authority": ("ca_file", b"", "ca.crt: there is no certificate in PEM"),
}


PAIR = {"cert_file": "--tls-cert-file", "key_file": "--tls-key-file"}
FLAGS = {
    "server": {"ca_file": "--tls-client-ca-file", **PAIR},
    "client": {"ca_file": "--tls-ca-file", **PAIR},
}


@pytest.mark.parametrize(("file", "content", "text"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("side", FLAGS)
def test_invalid_tls_file_error_is_one_line_that_names_the_flag(
    world: World, side: str, file: str, content: bytes | None, text: str, capsys: pytest.CaptureFixture[str]
):
    files = world.server_files if side == "server" else world.client_files
    path = getattr(files, file)
    path.unlink() if content is None else path.write_bytes(content)
    command = ["serve", "--memory"] if side == "server" else ["search"]
    with pytest.raises(SystemExit) as ended:
        main([*command, *(f"{flag}={getattr(files, name)}" for name, flag in FLAGS[side].items())])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"petstore: {FLAGS[side][file]}: ")
    assert text in line


@pytest.mark.parametrize(
    ("names", "missing"),
    [(("ca_file",), "cert_file"), (("cert_file",), "key_file"), (("key_file",), "cert_file")],
)
def test_server_tls_requires_certificate_and_key(world: World, names: tuple[str, ...], missing: str):
    files = TlsFiles(**{name: getattr(world.server_files, name) for name in names})
    with pytest.raises(TlsUnusable, match="is missing") as caught:
        ServerTls.of_server(files)
    assert caught.value.file == missing
