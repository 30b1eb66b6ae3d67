from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509

from manager.tls import CertificateFiles, CertificateUnusable, KeyPair, SelfSigned

NOW = datetime(2026, 11, 21, tzinfo=UTC)
DAY = timedelta(days=1)


def certificate(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificates)


def test_files_are_read_anew_each_time(tmp_path: Path):
    source = CertificateFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    for content in (b"one", b"two"):
        (tmp_path / "tls.crt").write_bytes(content)
        (tmp_path / "tls.key").write_bytes(content)
        assert source.pair(NOW) == KeyPair(content, content)


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    (tmp_path / "tls.crt").touch()
    source = CertificateFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    with pytest.raises(CertificateUnusable) as error:
        source.pair(NOW)
    assert str(error.value) == f"{tmp_path}/tls.key cannot be read: No such file or directory"


def test_a_self_signed_certificate_is_for_a_server_of_these_names():
    made = certificate(SelfSigned(["localhost", "example.com", "10.0.0.1", "::1"]).pair(NOW))
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "example.com"]
    assert names.get_values_for_type(x509.IPAddress) == [ip_address("10.0.0.1"), ip_address("::1")]
    constraints = made.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert not constraints.ca
    made.verify_directly_issued_by(made)


def test_a_self_signed_certificate_can_be_served():
    SelfSigned().pair(NOW).context()


def test_a_self_signed_certificate_is_kept_and_replaced_in_good_time():
    source = SelfSigned()
    first = source.pair(NOW)
    assert source.pair(NOW + 200 * DAY) == first
    second = source.pair(NOW + 250 * DAY)
    assert second.key != first.key
    assert certificate(first).not_valid_after_utc - (NOW + 250 * DAY) > 100 * DAY
    assert certificate(second).not_valid_after_utc == NOW + 615 * DAY


def test_two_processes_have_keys_of_their_own():
    assert SelfSigned().pair(NOW).key != SelfSigned().pair(NOW).key
