"""The TLS side of a connection to an API server, renewed when its files change."""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from manager.kube.errors import ConfigError
from manager.telemetry.logs import get_logger
from manager.tls.key_pair import CertificateUnusable, present, trust
from manager.util import clock
from manager.util.loop import in_thread
from manager.util.small_file import read_small_file

_log = get_logger("kube")

RECHECK_INTERVAL = 60.0
"""Seconds between two checks whether a file has changed."""


@dataclass(frozen=True, slots=True)
class Pem:
    """PEM text; either `path` or `data` is set.

    Attributes:
        label: the name in messages, such as the configured file and key.
        path: the file with the text.
        data: the text itself.
    """

    label: str
    path: Path | None = None
    data: bytes | None = None

    def __str__(self) -> str:
        return self.label if self.path is None else f"{self.label} ({self.path})"

    def read(self) -> bytes:
        """Return the current text; raise `ConfigError` if the file cannot be read."""
        if self.path is None:
            return self.data or b""
        try:
            return read_small_file(self.path)
        except OSError as error:
            raise ConfigError(f"{self.label}: {self.path} cannot be read: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Inputs of a TLS context.

    Attributes:
        authorities: the trusted CA certificates; None for the machine's and those in SSL_CERT_FILE.
        certificate: this client's certificate chain, or None.
        key: the certificate's private key.
        verify: False accepts any server, including a man in the middle.
    """

    authorities: Pem | None = None
    certificate: Pem | None = None
    key: Pem | None = None
    verify: bool = True

    def contents(self) -> list[bytes]:
        """Return the current contents of the files; raise `ConfigError` if one cannot be read."""
        return [pem.read() for pem in (self.authorities, self.certificate, self.key) if pem is not None]

    def build(self) -> ssl.SSLContext:
        """Build a new context from the current files.

        Raises:
            ConfigError: a file cannot be read, or its content is invalid.
        """
        # Not ssl.create_default_context, which since Python 3.13 refuses certificate authorities that kubeadm
        # and others have been issuing for years.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        authorities, certificate, key = self.authorities, self.certificate, self.key
        if authorities is None and (named := os.environ.get("SSL_CERT_FILE")):
            authorities = Pem("SSL_CERT_FILE", path=Path(named))
        source = f"{authorities}"
        try:
            if self.verify and authorities is not None:
                trust(context, authorities.read())
            if self.verify and self.authorities is None:
                context.load_default_certs()
            if certificate is not None and key is not None:
                source = f"{certificate}, {key}"
                present(context, certificate.read(), key.read())
        except CertificateUnusable as error:
            raise ConfigError(f"{source}: {error}") from error
        return context


class Tls:
    """The current TLS context for new connections.

    Attributes:
        check_at: the loop time of the next check of the files.
        latest: the context of the last check, None before the first.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self.latest: ssl.SSLContext | None = None
        self._contents: list[bytes] | None = None
        self.check_at = 0.0
        self._renewing = asyncio.Lock()

    async def context(self) -> ssl.SSLContext:
        """Return the context for new connections; a different object after the files change.

        Raises:
            ConfigError: the files are invalid, and there is no earlier context.
        """
        clock = asyncio.get_running_loop().time
        if self.latest is None or clock() >= self.check_at:
            async with self._renewing:
                while self.latest is None or clock() >= self.check_at:
                    self.check_at = now = clock()
                    self.latest = await in_thread(self._renewed)
                    if self.check_at == now:  # otherwise another check was requested during this one
                        self.check_at = now + RECHECK_INTERVAL
        return self.latest

    def present(self, certificate: tuple[Pem, Pem] | None) -> None:
        """Use this client certificate (and its key), or none, for all new connections."""
        chain, key = certificate or (None, None)
        self._files = replace(self._files, certificate=chain, key=key)
        self._contents = None
        self.check_at = 0.0

    async def expired_certificate(self) -> str:
        """Return a text that names an expired client certificate and its expiry; "" if none is found."""
        certificate, now = self._files.certificate, clock.now()
        return "" if certificate is None else await in_thread(lambda: _expired(certificate, now))

    def _renewed(self) -> ssl.SSLContext:
        try:
            # Read the contents first: a file that changes before the context is built is then read again.
            contents = self._files.contents()
            if self.latest is not None and contents == self._contents:
                return self.latest
            context = self._files.build()
        except ConfigError as error:
            if self.latest is None:
                raise
            # Programs replace the certificate and the key one after the other.
            _log.warning(
                "cannot renew the TLS configuration; continuing with the earlier one", error=str(error)
            )
            return self.latest
        self._contents = contents
        return context


def _expired(certificate: Pem, now: datetime) -> str:
    from manager.tls.certificate import certificates_in  # noqa: PLC0415 - cryptography: 31 ms, 8 MB

    try:
        found = certificates_in(certificate.read())
    except ConfigError:
        return ""  # the file is gone, and the context has its earlier content
    if not found or now <= found[0].until:
        return ""
    return f"{certificate}: the client certificate has expired, at {found[0].until:%Y-%m-%d %H:%M:%S} UTC"
