"""A server of an operator's own."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manager.server.limits import Limits
from manager.tls.served import CertificateFiles, ServedCertificate
from manager.util.address import BindAddress

if TYPE_CHECKING:
    from collections.abc import Callable

    from manager.server.server import Routes


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
        """Return what it presents to clients; None without TLS."""
        if self.cert_file is None or self.key_file is None:
            return None
        return ServedCertificate(CertificateFiles(self.cert_file, self.key_file))

    def serving(
        self, routes: Routes, certificate: ServedCertificate | None, leaving: Callable[[], bool]
    ) -> AbstractAsyncContextManager[Any]:
        """Serve `routes` for as long as the context lasts."""
        if self.address is None:
            return nullcontext()
        from manager.server.server import serve  # noqa: PLC0415 - aiohttp.web takes a tenth of a second

        options: dict[str, Any] = {"certificate": certificate, "limits": self.limits, "leaving": leaving}
        return serve(self.name, self.address, routes, **options)
