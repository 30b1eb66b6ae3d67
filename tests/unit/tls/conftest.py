from __future__ import annotations

import pytest
import trustme

from manager.tls.key_pair import KeyPair


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def pairs(authority: trustme.CA) -> tuple[KeyPair, KeyPair]:
    """Return two key pairs, each with a certificate for localhost."""
    one, other = (authority.issue_cert("localhost", "127.0.0.1") for _ in range(2))
    return _pair(one), _pair(other)


def _pair(issued: trustme.LeafCert) -> KeyPair:
    return KeyPair(b"".join(blob.bytes() for blob in issued.cert_chain_pems), issued.private_key_pem.bytes())
