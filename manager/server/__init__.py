"""HTTP servers of the process: aiohttp.web with limits, and checks of users' rights by the API server."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from manager.tls.served import CertificateFiles, ServedCertificate
from manager.util.address import BindAddress

__all__ = ["HttpServer", "Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one server; times in seconds. The defaults suit pages with few readers."""

    connections: int = 128
    """The number of open connections. A scraper or a probe has one or two."""

    handshake: float = 10.0
    """The time limit of a TLS handshake."""

    head: float = 10.0
    """The time limit for the first byte of a new connection, and for a whole head from its first byte."""

    exchange: float = 120.0
    """The time limit from the head of a request to the end of its answer."""

    write_stall: float = 10.0
    """The time after which a client that does not read its answer is disconnected."""

    linger: float = 2.0
    """The time for the unread rest of a body, and for a client to confirm the end of a TLS session."""

    keep_alive: float = 90.0
    """The time for the next request, as in controller-runtime and Go's clients: a scraper that asks every
    minute finds its connection open."""

    eviction: float = 1.0
    """The time after which a connection on which the server waits for the client may be closed for another
    client, if no connection is left."""

    drain: float = 0.5
    """The time for answers in progress when the server stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServer:
    """A server for the handlers of `Manager.add_routes`, separate from the metrics server."""

    name: str
    """The name of the server in logs and messages, such as `callbacks`."""

    address: BindAddress | None
    """The address to listen on; None, like a `Setting` that is `0`, disables the server."""

    cert_file: Path | None = None
    """A PEM file, which is read again when it changes. Together with `key_file`, it turns on HTTPS."""

    key_file: Path | None = None

    limits: Limits = field(default_factory=Limits)
    """The limits for clients."""

    def __post_init__(self) -> None:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError(f"the server of {self.name} needs both cert_file and key_file, or neither")

    def certificate(self) -> ServedCertificate | None:
        """Return the certificate that the server presents to clients; None without TLS."""
        if self.cert_file is None or self.key_file is None:
            return None
        return ServedCertificate(CertificateFiles(self.cert_file, self.key_file))
