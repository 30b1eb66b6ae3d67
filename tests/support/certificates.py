"""Keys and certificates of control planes that only a test uses."""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from devcluster.access import certificates


class Authority:
    """An in-memory certificate authority for server and user certificates."""

    def __init__(self, name: str) -> None:
        self._issuer = certificates.Authority.create(name)
        self.pem, _ = self._issuer.identity

    def server(self, *hosts: str) -> tuple[bytes, bytes]:
        """Issue a certificate and key (PEM) for a server with these names and addresses."""
        return self._issuer.issue("server", hosts=hosts)

    def user(self, user: str, groups: Sequence[str] = ()) -> tuple[bytes, bytes]:
        """Issue a client certificate and key (PEM) for `user` in `groups` of a Kubernetes API server."""
        return self._issuer.issue(user, organizations=groups)


def signing_key() -> bytes:
    """Create a PEM key that signs service-account tokens, in the only format that a real API server reads."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def trusting(authority: bytes | None = None) -> ssl.SSLContext:
    """Return a client's TLS context that trusts one authority, or any server if `authority` is None.

    The context does not load the authorities of the machine, because loading them is slow.
    """
    if authority is not None:
        return ssl.create_default_context(cadata=authority.decode())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
