"""The certificate a running server presents, exchanged when its source has another."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

from manager import clock
from manager.logs import get_logger
from manager.tls.key_pair import CertificateUnusable, KeyPair
from manager.tls.sources import CertificateSource, ClientAuthorities

__all__ = ["RECHECK_INTERVAL", "ServedCertificate"]

RECHECK_INTERVAL = 5.0
"""Seconds between two looks at the source. controller-runtime's certwatcher polls every 10 s and watches too;
a look is two small reads in a thread, and does on every file system, however a volume swaps its files."""

FIRST_CHECK_INTERVAL = 0.5
"""Seconds between two looks while there is no certificate yet, and something waits to be served."""

_Known = tuple[KeyPair, bytes | None]
"""A certificate, and who vouches for clients."""

_log = get_logger("tls")


class ServedCertificate:
    """What a server asks for its TLS context with each new connection.

    A context is complete before it is handed out, and is never changed after: connections that are open
    keep theirs, and none sees half of an exchange. While a source has nothing usable, as with a pair of
    which one file is replaced already, the earlier certificate is served on.
    """

    def __init__(self, source: CertificateSource, *, clients: ClientAuthorities | None = None) -> None:
        """Args:
        source: where the certificate comes from.
        clients: who vouches for the certificates that clients show; None asks for none.
        """
        self._source = source
        self._clients = clients
        self.asks_clients = clients is not None
        self._known: _Known | None = None
        self._context: ssl.SSLContext | None = None
        self._complaint: str | None = None

    @property
    def context(self) -> ssl.SSLContext:
        """The context for a connection that is made now; there is one while `kept_current` is entered."""
        assert self._context is not None, "the certificate is not being kept"
        return self._context

    @property
    def problem(self) -> str | None:
        """Why there is nothing to present yet; None once there is."""
        if self._context is not None:
            return None
        return self._complaint or f"no certificate has been looked for in {self._source}"

    async def obtained(self) -> None:
        """Return when the source has a certificate, however long that takes: somebody may be making it."""
        while self._context is None:
            try:
                await self._renew()
            except CertificateUnusable as error:
                if str(error) != self._complaint:
                    self._complaint = str(error)
                    _log.info("waiting for a certificate", reason=self._complaint)
                await asyncio.sleep(FIRST_CHECK_INTERVAL)

    @asynccontextmanager
    async def kept_current(self) -> AsyncIterator[None]:
        """Get the certificate, and look for another one until the end of the block.

        Raises `CertificateUnusable` when there is none to begin with.
        """
        if self._context is None:
            await self._renew()
        keeping = asyncio.create_task(self._keep(), name="served-certificate")
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(RECHECK_INTERVAL)
            try:
                await self._renew()
            except CertificateUnusable as error:
                self._complain(str(error))
            except Exception as error:  # noqa: BLE001 - a server goes on with what it has, whatever this is
                self._complain(repr(error))

    async def _renew(self) -> None:
        known, context = await asyncio.to_thread(_look, self._source, self._clients, clock.now(), self._known)
        self._complaint = None
        if context is not None:
            self._known, self._context = known, context
            _log.info("serving this certificate from now on", source=str(self._source))

    def _complain(self, text: str) -> None:
        """Say what is wrong, once for as long as it stays the same."""
        if text != self._complaint:
            self._complaint = text
            _log.warning("cannot renew the certificate; going on with the earlier one", error=text)


def _look(
    source: CertificateSource, clients: ClientAuthorities | None, now: datetime, known: _Known | None
) -> tuple[_Known, ssl.SSLContext | None]:
    """What the source and the authorities of clients have, and a context for it unless it is known."""
    found = pair, authorities = source.pair(now), None if clients is None else clients.read()
    if found == known:
        return found, None
    try:
        return found, pair.context(authorities, required=clients is not None and clients.required)
    except CertificateUnusable as error:
        raise CertificateUnusable(f"{source}: {error}") from error
