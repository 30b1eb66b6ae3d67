"""Certificates and keys in PEM files of other programs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from manager.tls.certificate import certificates_in, keys_in, new_authority
from tests.support.effort import Effort

CERTIFICATE, KEY = b"-----BEGIN CERTIFICATE-----\n", b"-----BEGIN PRIVATE KEY-----\n"


@pytest.mark.parametrize("line", [CERTIFICATE, KEY, b"-----BEGIN " + b"A" * 40, b"- " * 10])
def test_pem_parser_scans_unterminated_blocks_only_once(line: bytes):
    text = line * (1024 * 1024 // len(line))
    with Effort() as spent:
        assert (certificates_in(text), keys_in(text)) == ((), ())
    assert spent.units < 100


def test_pem_parser_finds_certificates_and_keys_among_other_blocks_and_text():
    authority = new_authority("test", datetime(2026, 11, 21, tzinfo=UTC), timedelta(days=9))
    old = b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAA==\n-----END RSA PRIVATE KEY-----\n"
    text = b"a - b\n".join((CERTIFICATE, authority.certificate, KEY, authority.key, old, CERTIFICATE))
    assert [each.pem for each in certificates_in(text)] == [authority.certificate]
    assert keys_in(text) == (authority.key, old)
