"""Files whose paths are in flags, environment variables and kubeconfigs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from manager.certificates.store import FolderStore
from manager.kube.config import _choose
from manager.kube.credentials import TokenFile
from manager.kube.tls import Pem, TlsFiles
from manager.tls.served import CertificateFiles, ClientAuthorities
from manager.util.small_file import read_small_file
from petstore import tls as petstore_tls
from tests.support.settings import load_settings


def pipe(path: Path) -> None:
    os.mkfifo(path)


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10_000_000_000)


def just_too_long(path: Path) -> None:
    path.write_bytes(b" " * (1024 * 1024 + 1))


def trusted_by_the_machine(path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(path))
        TlsFiles().build()


READERS: dict[str, Callable[[Path], object]] = {
    "--config": lambda path: load_settings({"config": str(path)}),
    "--kubeconfig": lambda path: _choose([path], "test", None),
    "certificates of a kubeconfig": lambda path: Pem("test", path=path).read(),
    "a tokenFile": lambda path: asyncio.run(TokenFile(path, label="test").obtain()),
    "SSL_CERT_FILE": trusted_by_the_machine,
    "--webhook-cert-path": lambda path: CertificateFiles(path, path).pair(None),  # type: ignore[arg-type]
    "--webhook-client-ca-file": lambda path: ClientAuthorities(path).read(),
    "certificates kept in a folder": lambda path: FolderStore(path.parent).look(),
    "--petstore-tls-ca-file": lambda path: petstore_tls.TlsFiles(ca_file=path).read(),
}


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (pipe, "not a regular file"),
        (Path.mkdir, "Is a directory"),
        (zeros, "not a regular file"),
        (huge, "longer than 1 MiB"),
        (just_too_long, "longer than 1 MiB"),
    ],
)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.timeout(10)
def test_small_file_readers_refuse_pipes_folders_and_too_large_files(
    tmp_path: Path, reader: str, make: Callable[[Path], None], problem: str
):
    path = tmp_path / "certificates.json"
    make(path)
    with pytest.raises(Exception) as error:  # noqa: PT011 -- each reader has its own
        READERS[reader](path)
    told = str(error.value)
    assert problem in told
    assert str(path) in told
    assert "\n" not in told


def test_read_small_file_accepts_a_file_of_one_mebibyte(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * (1024 * 1024))
    assert read_small_file(path) == path.read_bytes()
