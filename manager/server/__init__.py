"""HTTP servers of the process: aiohttp.web behind limits, and the API server's word on who may see a page."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from manager.tls.served import CertificateFiles, ServedCertificate
from manager.util.address import BindAddress

__all__ = ["HttpServer", "Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one server; times in seconds. The defaults fit pages with few readers."""

    connections: int = 128
    """Open connections at once. A scraper or a probe has one or two."""

    handshake: float = 10.0
    """For a TLS handshake."""

    head: float = 10.0
    """For the first byte of a new connection, and from the first byte of a head to its last."""

    exchange: float = 120.0
    """From the head of a request to the end of its answer."""

    write_stall: float = 10.0
    """For a client that does not read its answer."""

    linger: float = 2.0
    """For the unread rest of a body, and for a client to answer the end of a TLS session."""

    keep_alive: float = 90.0
    """For the next request, as with Go's clients and servers: a scraper that comes every minute finds its
    connection open."""

    eviction: float = 1.0
    """Until a client that neither sends the rest of its request nor reads its answer loses its connection to
    another client, if no connection is left."""

    drain: float = 0.5
    """For answers under way once the server stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServer:
    """Where `Manager.add_routes` serves handlers, if not on the metrics server."""

    name: str
    """What is served, for the log and for messages, such as `callbacks`."""

    address: BindAddress | None
    """Where it listens; None, as in a `Setting` that is `0`, serves nothing."""

    cert_file: Path | None = None
    """A PEM file, which is read again when it changes. With it and `key_file` it is HTTPS."""

    key_file: Path | None = None

    limits: Limits = field(default_factory=Limits)
    """What clients may take of it."""

    def __post_init__(self) -> None:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError(f"the server of {self.name} needs both cert_file and key_file, or neither")

    def certificate(self) -> ServedCertificate | None:
        """Return the certificate that the server presents to clients; None without TLS."""
        if self.cert_file is None or self.key_file is None:
            return None
        return ServedCertificate(CertificateFiles(self.cert_file, self.key_file))
