from __future__ import annotations

import os
import re
import ssl
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from manager.tls import CertificateUnusable, KeyPair
from manager.tls.key_pair import as_file

Pairs = tuple[KeyPair, KeyPair]


def test_a_context_is_for_a_server_of_today(pairs: Pairs):
    context = pairs[0].context()
    assert context.protocol is ssl.PROTOCOL_TLS_SERVER
    assert context.minimum_version is context.maximum_version is ssl.TLSVersion.TLSv1_2
    assert all("ECDHE" in each["name"] for each in context.get_ciphers() if each["protocol"] == "TLSv1.2")
    assert context.verify_mode is ssl.CERT_NONE
    assert context.options & ssl.OP_NO_RENEGOTIATION


def test_a_key_of_another_certificate_is_told_in_a_sentence(pairs: Pairs):
    with pytest.raises(CertificateUnusable, match=r"^the key is not that of the certificate$"):
        KeyPair(pairs[0].certificates, pairs[1].key).context()


@pytest.mark.parametrize("half", [0.0, 0.5])
def test_half_a_file_is_no_certificate(pairs: Pairs, half: float):
    whole = pairs[0]
    for damaged in (
        KeyPair(whole.certificates[: int(len(whole.certificates) * half * 0.5)], whole.key),
        KeyPair(whole.certificates, whole.key[: int(len(whole.key) * half)]),
    ):
        with pytest.raises(CertificateUnusable, match="no certificate in PEM with its key"):
            damaged.context()


def test_an_encrypted_key_is_refused_without_asking_for_a_password(pairs: Pairs):
    key = load_pem_private_key(pairs[0].key, password=None)
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    with pytest.raises(CertificateUnusable, match="the key is encrypted"):
        KeyPair(pairs[0].certificates, secret).context()


def test_what_is_shown_of_a_pair_has_no_key(pairs: Pairs):
    assert "PRIVATE" not in repr(pairs[0])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is a temporary file")
def test_a_key_is_not_put_on_a_disk():
    with as_file(b"secret", name="example") as path:
        assert re.fullmatch(r"/proc/self/fd/\d+", path)
        assert Path(path).read_bytes() == b"secret"
        assert "memfd:example" in str(Path(path).readlink())
        descriptor = int(path.rpartition("/")[2])
        assert not os.get_inheritable(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_where_there_are_no_files_in_memory_one_that_only_we_can_read_is_removed_at_once(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("manager.tls.key_pair.sys.platform", "darwin")
    with as_file(b"secret", name="example") as name:
        path = Path(name)
        assert path.read_bytes() == b"secret"
        assert path.stat().st_mode & 0o077 == 0
    assert not path.exists()
