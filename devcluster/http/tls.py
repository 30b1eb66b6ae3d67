"""TLS as the server speaks it."""

from __future__ import annotations

import ssl
from pathlib import Path

__all__ = ["server_context"]


def server_context(identity: tuple[Path, Path], authority: Path) -> ssl.SSLContext:
    """Return a context with the server's certificate; clients may present one signed by `authority`.

    A certificate of another authority fails the handshake; the real server answers 401. The server offers
    HTTP/1.1 only, and clients that prefer HTTP/2 accept it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(*identity)
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["http/1.1"])
    return context
