from __future__ import annotations

import asyncio
import os
import re
import ssl
import sys
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from structlog.testing import capture_logs

from manager.tls import served
from manager.tls.key_pair import CertificateUnusable, KeyPair, as_file
from manager.tls.served import CertificateFiles, ClientAuthorities, SelfSigned, ServedCertificate

Pairs = tuple[KeyPair, KeyPair]
SHOWN = {"subject": ()}
"""Certificate of a client as `ssl` returns it."""


class Shelf:
    """Certificate source with content that the test sets."""

    def __init__(self, item: KeyPair | Exception) -> None:
        self.item = item
        self.looks = 0

    def __str__(self) -> str:
        return "shelf"

    def pair(self, now: datetime) -> KeyPair:
        self.looks += 1
        if isinstance(self.item, Exception):
            raise self.item
        return self.item

    async def looked_at(self, times: int) -> None:
        """Wait until the source has been read `times` more times, and the last read was processed."""
        until = self.looks + times + 1
        async with asyncio.timeout(10):
            while self.looks < until:  # noqa: ASYNC110 - threads count
                await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "RECHECK_INTERVAL", 0.001)
    monkeypatch.setattr(served, "FIRST_CHECK_INTERVAL", 0.001)


async def test_served_certificate_raises_when_the_first_certificate_is_unusable(pairs: Pairs):
    foreign = KeyPair(pairs[0].certificates, pairs[1].key)
    assert "PRIVATE" not in repr(foreign)
    for item, message in (
        (CertificateUnusable("tls.crt cannot be read"), "tls.crt cannot be read"),
        (foreign, "shelf: the key does not match the certificate"),
    ):
        with pytest.raises(CertificateUnusable, match=f"^{message}$"):
            async with ServedCertificate(Shelf(item)).refreshed():
                pytest.fail("the certificate was served")


async def test_served_certificate_keeps_the_old_key_pair_when_the_new_key_does_not_match(pairs: Pairs):
    shelf = Shelf(pairs[0])
    certificate = ServedCertificate(shelf)
    with capture_logs() as lines:
        async with certificate.refreshed():
            first = certificate.context
            await shelf.looked_at(2)
            assert certificate.context is first
            shelf.item = KeyPair(pairs[1].certificates, pairs[0].key)
            await shelf.looked_at(3)
            assert certificate.context is first
            shelf.item = pairs[1]
            await shelf.looked_at(2)
            assert certificate.context is not first
    warnings = [line for line in lines if line["log_level"] == "warning"]
    assert [line["error"] for line in warnings] == ["shelf: the key does not match the certificate"]


@pytest.fixture
def clients(authority: trustme.CA, tmp_path: Path) -> Path:
    file = tmp_path / "clients.crt"
    file.write_bytes(authority.cert_pem.bytes())
    return file


async def test_served_certificate_applies_new_client_cas_when_the_key_pair_is_unusable(
    pairs: Pairs, clients: Path
):
    shelf = Shelf(pairs[0])
    certificate = ServedCertificate(shelf, clients=ClientAuthorities(clients))
    async with certificate.refreshed():
        before = certificate.context
        assert certificate.lets_in(before, SHOWN)
        shelf.item = KeyPair(pairs[1].certificates, pairs[0].key)
        trustme.CA().cert_pem.write_to_path(str(clients))
        await shelf.looked_at(2)
        assert not certificate.lets_in(before, SHOWN)
        assert certificate.lets_in(certificate.context, SHOWN)


async def test_served_certificate_is_renewed_when_the_client_cas_are_unreadable(pairs: Pairs, clients: Path):
    shelf = Shelf(pairs[0])
    certificate = ServedCertificate(shelf, clients=ClientAuthorities(clients))
    with capture_logs() as lines:
        async with certificate.refreshed():
            before = certificate.context
            await asyncio.to_thread(clients.unlink)
            shelf.item = pairs[1]
            await shelf.looked_at(3)
            assert certificate.context is not before
            assert certificate.context.verify_mode is ssl.CERT_REQUIRED
            assert certificate.lets_in(before, SHOWN)
    [warning] = [line for line in lines if line["log_level"] == "warning"]
    assert warning["error"].endswith("clients.crt cannot be read: No such file or directory")


async def test_served_certificate_logs_an_error_again_when_it_recurs_after_success(pairs: Pairs):
    shelf = Shelf(pairs[0])
    with capture_logs() as lines:
        async with ServedCertificate(shelf).refreshed():
            for item in (OSError("gone"), pairs[0], ValueError("odd"), pairs[0], OSError("gone")):
                shelf.item = item
                await shelf.looked_at(2)
    looks = shelf.looks
    await asyncio.sleep(0.02)
    assert shelf.looks <= looks + 1
    errors = [line["error"] for line in lines if line["log_level"] == "warning"]
    assert errors == ["OSError('gone')", "ValueError('odd')", "OSError('gone')"]


async def test_served_certificate_waits_until_its_source_has_a_certificate(pairs: Pairs):
    shelf = Shelf(CertificateUnusable("the Secret is empty"))
    certificate = ServedCertificate(shelf)
    assert certificate.problem == "no certificate has been looked for in shelf"
    with capture_logs() as lines:
        waiting = asyncio.create_task(certificate.obtained())
        await shelf.looked_at(3)
        assert certificate.problem == "the Secret is empty"
        assert not waiting.done()
        shelf.item = pairs[0]
        await waiting
    assert certificate.problem is None
    assert [line["event"] for line in lines] == [
        "waiting for a certificate",
        "serving a new certificate or client authority",
    ]
    async with certificate.refreshed():
        assert certificate.context is not None


def test_server_tls_context_allows_only_tls_1_2_with_forward_secrecy(pairs: Pairs):
    context = pairs[0].context()
    assert context.protocol is ssl.PROTOCOL_TLS_SERVER
    assert context.minimum_version is context.maximum_version is ssl.TLSVersion.TLSv1_2
    assert all("ECDHE" in each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3")
    assert context.verify_mode is ssl.CERT_NONE
    assert context.options & ssl.OP_NO_RENEGOTIATION


def test_key_pair_context_refuses_a_truncated_file_and_an_encrypted_key(pairs: Pairs):
    crt, key = pairs[0].certificates, pairs[0].key
    plain = load_pem_private_key(key, password=None)
    encrypted = plain.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    damaged = (
        KeyPair(b"", key),
        KeyPair(crt[: len(crt) // 4], key),
        KeyPair(crt, b""),
        KeyPair(crt, key[: len(key) // 2]),
    )
    for pair, problem in (
        *((pair, "no certificate in PEM with its key") for pair in damaged),
        (KeyPair(crt, encrypted), "the key is encrypted"),
    ):
        with pytest.raises(CertificateUnusable, match=problem):
            pair.context()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is a temporary file")
def test_private_key_file_is_in_memory_on_linux_and_temporary_elsewhere(monkeypatch: pytest.MonkeyPatch):
    with as_file(b"secret", name="example") as path:
        assert re.fullmatch(r"/proc/self/fd/\d+", path)
        assert Path(path).read_bytes() == b"secret"
        assert "memfd:example" in str(Path(path).readlink())
        descriptor = int(path.rpartition("/")[2])
        assert not os.get_inheritable(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    monkeypatch.setattr("manager.tls.key_pair.sys.platform", "darwin")
    with as_file(b"secret", name="example") as path:
        assert Path(path).read_bytes() == b"secret"
        assert Path(path).stat().st_mode & 0o077 == 0
    assert not Path(path).exists()


NOW = datetime(2026, 11, 21, tzinfo=UTC)
DAY = timedelta(days=1)


def test_certificate_files_are_read_again_whenever_the_key_pair_is_requested(tmp_path: Path):
    source = CertificateFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    for content in (b"one", b"two"):
        (tmp_path / "tls.crt").write_bytes(content)
        (tmp_path / "tls.key").write_bytes(content)
        assert source.pair(NOW) == KeyPair(content, content)
    (tmp_path / "tls.key").unlink()
    message = f"^{tmp_path}/tls.key cannot be read: No such file or directory$"
    with pytest.raises(CertificateUnusable, match=message):
        source.pair(NOW)


def test_self_signed_certificate_has_the_given_names_and_is_replaced_before_its_expiry():
    source = SelfSigned(["localhost", "example.com", "10.0.0.1", "::1"])
    first = source.pair(NOW)
    assert source.pair(NOW + 200 * DAY) == first
    second = source.pair(NOW + 250 * DAY)
    assert second.key != first.key
    made, later = (x509.load_pem_x509_certificate(each.certificates) for each in (first, second))
    assert (made.not_valid_after_utc, later.not_valid_after_utc) == (NOW + 365 * DAY, NOW + 615 * DAY)
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "example.com"]
    assert names.get_values_for_type(x509.IPAddress) == [ip_address("10.0.0.1"), ip_address("::1")]
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    made.verify_directly_issued_by(made)
