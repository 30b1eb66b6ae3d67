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
    issued = [authority.issue_cert("localhost", "127.0.0.1") for _ in range(2)]
    one, other = (KeyPair(each.cert_chain_pems[0].bytes(), each.private_key_pem.bytes()) for each in issued)
    return one, other
