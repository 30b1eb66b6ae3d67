"""TLS as the server speaks it."""

from __future__ import annotations

import ssl
from pathlib import Path

__all__ = ["server_context"]


def server_context(identity: tuple[Path, Path], authority: Path) -> ssl.SSLContext:
    """A context with the server's certificate and key; clients may show a certificate of `authority`.

    One that another authority signed fails the handshake, where the real server answers 401. HTTP/1.1 is all
    that is offered, and clients that would like HTTP/2 settle for it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(*identity)
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["http/1.1"])
    return context
