from __future__ import annotations

import asyncio
import os
import re
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme

from manager.kube.errors import ConfigError
from manager.kube.tls import Pem, Tls, TlsFiles


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "ca.crt"
    authority.cert_pem.write_to_path(str(path))
    return path


def replace(path: Path, other: Path) -> None:
    """Replace the file by one with another CA certificate; file size and modification time stay equal."""
    size, at = path.stat().st_size, path.stat().st_mtime_ns
    other.write_bytes(trustme.CA().cert_pem.bytes().ljust(size, b"\n"))
    assert other.stat().st_size == size
    os.utime(other, ns=(at, at))
    other.replace(path)


def trusted(context: ssl.SSLContext) -> int:
    return context.cert_store_stats()["x509_ca"]


def test_tls_trusts_only_the_configured_ca_unless_verification_is_off(ca_file: Path):
    context = TlsFiles(authorities=Pem("ca", path=ca_file)).build()
    assert trusted(context) == 1
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    # Some authorities lack the extensions that this flag requires.
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    context = TlsFiles(verify=False).build()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nxx\n"])
def test_invalid_ca_file_raises_an_error_that_names_the_file(tmp_path: Path, content: bytes):
    file = tmp_path / "ca.crt"
    file.write_bytes(content)
    with pytest.raises(
        ConfigError, match=rf"^the CA \({re.escape(str(file))}\): contains no PEM certificate"
    ):
        TlsFiles(authorities=Pem("the CA", path=file)).build()


def test_tls_error_names_certificate_and_key_of_an_unusable_client_certificate(authority: trustme.CA):
    first, second = authority.issue_cert("a.test"), authority.issue_cert("b.test")
    files = TlsFiles(
        certificate=Pem("the certificate", data=first.cert_chain_pems[0].bytes()),
        key=Pem("the key", data=second.private_key_pem.bytes()),
    )
    with pytest.raises(ConfigError, match=r"^the certificate, the key: the key does not match"):
        files.build()


async def test_tls_context_is_renewed_at_the_next_check_after_a_valid_file_change(
    ca_file: Path, tmp_path: Path, authority: trustme.CA, other_authority: trustme.CA
):
    tls = Tls(TlsFiles(authorities=Pem("ca", path=ca_file)))
    first = await tls.context()
    tls.check_at = 0.0
    assert await tls.context() is first
    other_authority.cert_pem.write_to_path(str(ca_file), append=True)
    assert await tls.context() is first
    tls.check_at = 0.0
    second = await tls.context()
    assert trusted(second) == 2
    replace(ca_file, tmp_path / "copy")
    tls.check_at = 0.0
    third = await tls.context()
    assert third is not second
    for spoil in (lambda: ca_file.write_bytes(b"half a certificate"), ca_file.unlink):
        spoil()
        tls.check_at = 0.0
        assert await tls.context() is third
    trustme.CA().cert_pem.write_to_path(str(ca_file))
    tls.check_at = 0.0
    assert await tls.context() is not third


async def test_tls_gives_concurrent_callers_the_same_context(ca_file: Path):
    tls = Tls(TlsFiles(authorities=Pem("ca", path=ca_file)))
    assert len({id(context) for context in await asyncio.gather(*(tls.context() for _ in range(5)))}) == 1


async def test_tls_creates_a_new_context_for_a_different_client_certificate(
    ca_file: Path, authority: trustme.CA
):
    tls = Tls(TlsFiles(authorities=Pem("ca", path=ca_file)))
    first = await tls.context()
    issued = authority.issue_cert("a.test")
    crt, key = issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes()
    tls.present((Pem("crt", data=crt), Pem("key", data=key)))
    assert await tls.context() is not first


@pytest.mark.parametrize("is_first", [True, False])
async def test_tls_checks_its_files_again_when_a_check_is_requested_during_a_check(
    ca_file: Path, authority: trustme.CA, other_authority: trustme.CA, is_first: bool
):
    tls = Tls(TlsFiles(authorities=Pem("ca", path=ca_file)))
    if not is_first:
        await tls.context()
        tls.check_at = 0.0
    renewed = tls._renewed
    loop = asyncio.get_running_loop()

    def renew_and_change_the_file() -> ssl.SSLContext:
        found, tls._renewed = renewed(), renewed  # type: ignore[method-assign]
        ca_file.write_bytes(authority.cert_pem.bytes() + other_authority.cert_pem.bytes())
        asyncio.run_coroutine_threadsafe(ask_again(), loop).result()
        return found

    async def ask_again() -> None:
        tls.check_at = 0.0

    tls._renewed = renew_and_change_the_file  # type: ignore[method-assign]
    assert trusted(await tls.context()) == 2


async def test_tls_reports_an_expired_client_certificate_with_its_file(tmp_path: Path, authority: trustme.CA):
    file, ended = tmp_path / "crt", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    key = Pem("key", data=b"")
    tls = Tls(TlsFiles(certificate=Pem("client-certificate", path=file), key=key))
    assert await tls.expired_certificate() == ""
    file.write_bytes(authority.issue_cert("a.test", not_after=ended).cert_chain_pems[0].bytes())
    expired = f"client-certificate ({file}): the client certificate has expired, at 2026-01-02 03:04:05 UTC"
    assert await tls.expired_certificate() == expired
    file.write_bytes(authority.issue_cert("a.test").cert_chain_pems[0].bytes())
    assert await tls.expired_certificate() == ""
    assert await Tls(TlsFiles()).expired_certificate() == ""
