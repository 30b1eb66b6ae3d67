"""Certificates of running servers: their sources, and their replacement by new ones."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakSet

from manager.telemetry.logs import get_logger
from manager.tls.key_pair import CertificateUnusable, KeyPair, trust
from manager.util import clock
from manager.util.small_file import read_small_file

RECHECK_INTERVAL = 5.0
"""Seconds between two reads of the source. controller-runtime's certwatcher polls every 10 s and watches,
too. Two small reads in a thread work on every file system, however a volume replaces its files."""

FIRST_CHECK_INTERVAL = 0.5
"""Seconds between two reads while there is no certificate and a server waits for one."""

_VALID_FOR = timedelta(days=365)
_RENEWED_AFTER = timedelta(days=240)

_log = get_logger("tls")


class CertificateSource(Protocol):
    """The source of a served certificate."""

    def __str__(self) -> str:
        """Return the origin of the certificate, for messages."""

    def pair(self, now: datetime) -> KeyPair:
        """Return the certificate and its key for the time `now`; unchanged ones give an equal pair.

        It may block, and is called in a thread, never concurrently. Raises `CertificateUnusable`.
        """


class CertificateFiles:
    """Certificate files that another program updates: a mounted Secret, or an administrator's files."""

    def __init__(self, certificate: Path, key: Path, *, flag: str = "") -> None:
        """Create the source; messages name `flag`, the setting of the folder."""
        self._certificate = certificate
        self._key = key
        self._flag = flag

    def __str__(self) -> str:
        return f"{self._certificate} and {self._key}"

    def pair(self, now: datetime) -> KeyPair:
        """Read both files; they may not match for a moment while another program replaces them."""
        del now
        return KeyPair(_content(self._certificate, self._flag), _content(self._key, self._flag))


class ClientAuthorities:
    """A file with the CA certificates for clients; another program updates the file."""

    def __init__(self, file: Path, *, required: bool = True) -> None:
        """Use the CAs in `file`; if `required`, a client without a valid certificate fails the handshake."""
        self._file = file
        self.required = required

    def read(self) -> bytes:
        """Return the current PEM. Blocks. Raises `CertificateUnusable` if it cannot be used."""
        content, context = _content(self._file), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with suppress(CertificateUnusable):
            trust(context, content)
            if context.cert_store_stats()["x509_ca"]:
                return content
        raise CertificateUnusable(f"{self._file} has no certificate of an authority in PEM, or a broken one")


class SelfSigned:
    """A self-signed certificate in memory for `names`, which encrypts but proves no identity.

    It is replaced long before the end of its year.
    """

    def __init__(self, names: Sequence[str] = ("localhost", "127.0.0.1", "::1")) -> None:
        self._names = tuple(names)
        self._made: tuple[datetime, KeyPair] | None = None

    def __str__(self) -> str:
        return "self-signed"

    def pair(self, now: datetime) -> KeyPair:
        """Return the certificate; create one at the first call, and a new one when it is due."""
        from manager.tls.certificate import self_signed  # noqa: PLC0415 - cryptography: 31 ms, 8 MB

        if self._made is None or now >= self._made[0] + _RENEWED_AFTER:
            self._made = now, self_signed(self._names, now, _VALID_FOR)
        return self._made[1]


def _content(path: Path, flag: str = "") -> bytes:
    try:
        return read_small_file(path)
    except OSError as error:
        named = f"{path} ({flag})" if flag else str(path)
        raise CertificateUnusable(f"{named} cannot be read: {error.strerror}") from error


def is_over(shown: Mapping[str, Any] | None) -> bool:
    """Return whether a certificate, in the form of `getpeercert`, has expired.

    OpenSSL itself checks the expiry only in full handshakes, and not when a session is resumed.
    """
    ends = (shown or {}).get("notAfter")
    return ends is not None and ssl.cert_time_to_seconds(ends) < clock.now().timestamp()


_Known = tuple[KeyPair, bytes | None]
"""A certificate, and the CAs of clients."""


class ServedCertificate:
    """The provider of the TLS context for each new connection of a server.

    A context never changes, and open connections keep theirs. While a source is unusable, for example with
    only one file of a pair replaced, the earlier certificate is served.
    """

    def __init__(
        self,
        source: CertificateSource,
        *,
        clients: ClientAuthorities | None = None,
        look_every: float | None = None,
    ) -> None:
        """Create the provider; `clients` has the CAs for client certificates, None if clients need none."""
        self.source = source
        self._look_every = look_every
        self._clients = clients
        self.asks_clients = clients is not None
        self._known: _Known | None = None
        self._context: ssl.SSLContext | None = None
        self._trusting = WeakSet[ssl.SSLContext]()
        """Contexts with the current authorities of clients."""
        self._complaint: str | None = None

    @property
    def context(self) -> ssl.SSLContext:
        """Return the context for new connections; it exists inside the block of `refreshed`."""
        assert self._context is not None, "no certificate has been read"
        return self._context

    def lets_in(self, context: ssl.SSLContext, shown: Mapping[str, Any] | None) -> bool:
        """Return whether a client with the certificate `shown`, connected with `context`, has access."""
        return not shown or (context in self._trusting and not is_over(shown))

    @property
    def problem(self) -> str | None:
        """Return why there is no certificate yet; None if there is one."""
        if self._context is not None:
            return None
        return self._complaint or f"no certificate has been looked for in {self.source}"

    def valid(self) -> tuple[datetime, datetime] | None:
        """Return the validity of the presented certificate, None without one. Blocks at the first call."""
        from manager.tls.certificate import certificates_in  # noqa: PLC0415 - cryptography: 31 ms, 8 MB

        found = () if self._known is None else certificates_in(self._known[0].certificates)
        return (found[0].since, found[0].until) if found else None

    async def obtained(self) -> None:
        """Wait without a time limit until the source has a certificate: the leader may have to create it."""
        while self._context is None:
            try:
                await self._renew()
            except CertificateUnusable as error:
                if str(error) != self._complaint:
                    self._complaint = str(error)
                    _log.info("waiting for a certificate", reason=self._complaint)
                await asyncio.sleep(FIRST_CHECK_INTERVAL)

    @asynccontextmanager
    async def refreshed(self) -> AsyncIterator[None]:
        """Read the certificate, and check for a newer one until the end of the block.

        Raises `CertificateUnusable` if there is none at the beginning.
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
            await asyncio.sleep(self._look_every or RECHECK_INTERVAL)
            try:
                await self._renew()
            except Exception as error:  # noqa: BLE001 - a server keeps its certificate after any error
                text = str(error) if isinstance(error, CertificateUnusable) else repr(error)
                if text != self._complaint:  # log each error once until it changes
                    self._complaint = text
                    _log.warning("cannot renew certificate or client CAs; using earlier ones", error=text)

    async def _renew(self) -> None:
        found, context, wrong = await asyncio.to_thread(self._read, clock.now())
        if context is not None:
            if self._known is None or self._known[1] != found[1]:
                self._trusting = WeakSet()
            self._trusting.add(context)
            self._known, self._context = found, context
            _log.info("serving a new certificate or client authority", source=str(self.source))
        if wrong is not None:
            raise wrong
        self._complaint = None

    def _read(self, now: datetime) -> tuple[_Known, ssl.SSLContext | None, CertificateUnusable | None]:
        """Read certificate and client CAs; return them, a new context after a change, and the first error.

        If one of them cannot be read, its last value is used, and a change of the other still takes effect.
        """
        clients, wrong = self._clients, None
        pair, authorities = self._known or (None, None)
        try:
            pair = self._usable(now, pair)
        except CertificateUnusable as error:
            wrong = error
        try:
            authorities = None if clients is None else clients.read()
        except CertificateUnusable as error:
            wrong = wrong or error
        if pair is None or (wrong is not None and self._known is None):
            raise wrong or CertificateUnusable(f"{self.source} has no certificate")
        found = pair, authorities
        if found == self._known:
            return found, None, wrong
        return found, pair.context(authorities, required=clients is not None and clients.required), wrong

    def _usable(self, now: datetime, before: KeyPair | None) -> KeyPair:
        found = self.source.pair(now)
        if found != before:
            try:
                found.context()
            except CertificateUnusable as error:
                raise CertificateUnusable(f"{self.source}: {error}") from error
        return found
