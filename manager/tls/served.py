"""Certificates of running servers: where they come from, and how a new one replaces another."""

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
"""Seconds between two reads of the source. controller-runtime's certwatcher polls every 10 s and watches too.
Two small reads in a thread work on every file system, however a volume swaps its files."""

FIRST_CHECK_INTERVAL = 0.5
"""Seconds between two reads while there is no certificate yet, and something waits to be served."""

_VALID_FOR = timedelta(days=365)
_RENEWED_AFTER = timedelta(days=240)

_log = get_logger("tls")


class CertificateSource(Protocol):
    """Source of the served certificate."""

    def __str__(self) -> str:
        """Where it comes from, for messages."""

    def pair(self, now: datetime) -> KeyPair:
        """Return the certificate and its key for the time `now`; an equal pair means no change.

        It may block, and is called in a thread, never concurrently. Raises `CertificateUnusable`.
        """


class CertificateFiles:
    """Certificate files that another program updates: a mounted Secret, or an administrator's files."""

    def __init__(self, certificate: Path, key: Path, *, flag: str = "") -> None:
        """`flag` is what names their folder, for messages."""
        self._certificate = certificate
        self._key = key
        self._flag = flag

    def __str__(self) -> str:
        return f"{self._certificate} and {self._key}"

    def pair(self, now: datetime) -> KeyPair:
        """See `CertificateSource`. Files that are replaced one after the other may not fit for a moment."""
        del now
        return KeyPair(_content(self._certificate, self._flag), _content(self._key, self._flag))


class ClientAuthorities:
    """File with the CA certificates for clients; another program updates it."""

    def __init__(self, file: Path, *, required: bool = True) -> None:
        """Use the CAs in `file`; if `required`, a client without a valid certificate fails the handshake."""
        self._file = file
        self.required = required

    def read(self) -> bytes:
        """Return the current PEM. Blocks. Raises `CertificateUnusable` without a file or an authority."""
        content, context = _content(self._file), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with suppress(CertificateUnusable):
            trust(context, content)
        if not context.cert_store_stats()["x509_ca"]:
            raise CertificateUnusable(f"{self._file} has no certificate of an authority in PEM")
        return content


class SelfSigned:
    """Self-signed certificate in memory for `names`, which encrypts but proves no identity.

    It is replaced long before its year is over.
    """

    def __init__(self, names: Sequence[str] = ("localhost", "127.0.0.1", "::1")) -> None:
        self._names = tuple(names)
        self._made: tuple[datetime, KeyPair] | None = None

    def __str__(self) -> str:
        return "self-signed"

    def pair(self, now: datetime) -> KeyPair:
        """See `CertificateSource`."""
        from manager.tls.certificate import self_signed  # noqa: PLC0415 - cryptography takes 0.1 s

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
    """Return whether a certificate, as `getpeercert` has it, has expired.

    OpenSSL itself looks at it in full handshakes only, and not when a session is resumed.
    """
    ends = (shown or {}).get("notAfter")
    return ends is not None and ssl.cert_time_to_seconds(ends) < clock.now().timestamp()


_Known = tuple[KeyPair, bytes | None]
"""A certificate, and the authorities of clients."""


class ServedCertificate:
    """Provider of the TLS context for each new connection of a server.

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
        """`clients` has the CAs for certificates of clients; None requests none."""
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
        """Return the context for new connections; there is one while `refreshed` is entered."""
        assert self._context is not None, "the certificate is not being kept"
        return self._context

    def lets_in(self, context: ssl.SSLContext, shown: Mapping[str, Any] | None) -> bool:
        """Return whether a client that has `shown` this on a connection with that context is still let in."""
        return not shown or (context in self._trusting and not is_over(shown))

    @property
    def problem(self) -> str | None:
        """Return why there is no certificate yet; None once there is one."""
        if self._context is not None:
            return None
        return self._complaint or f"no certificate has been looked for in {self.source}"

    def valid(self) -> tuple[datetime, datetime] | None:
        """Return since when, and until when, the presented certificate is valid. Blocks the first time."""
        from manager.tls.certificate import certificates_in  # noqa: PLC0415 - cryptography takes 0.1 s

        found = () if self._known is None else certificates_in(self._known[0].certificates)
        return (found[0].since, found[0].until) if found else None

    async def obtained(self) -> None:
        """Wait without a time limit until the source has a certificate; the leader may still create it."""
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
            await asyncio.sleep(self._look_every or RECHECK_INTERVAL)
            try:
                await self._renew()
            except Exception as error:  # noqa: BLE001 - a server keeps its certificate after any error
                text = str(error) if isinstance(error, CertificateUnusable) else repr(error)
                if text != self._complaint:  # once for as long as it stays the same
                    self._complaint = text
                    _log.warning("cannot renew the certificate; going on with the earlier one", error=text)

    async def _renew(self) -> None:
        found, context, wrong = await asyncio.to_thread(self._read, clock.now())
        if context is not None:
            if self._known is None or self._known[1] != found[1]:
                self._trusting = WeakSet()
            self._trusting.add(context)
            self._known, self._context = found, context
            _log.info("serving a new certificate", source=str(self.source))
        if wrong is not None:
            raise wrong
        self._complaint = None

    def _read(self, now: datetime) -> tuple[_Known, ssl.SSLContext | None, CertificateUnusable | None]:
        """Read source and client CAs, and return them with a context if they changed, and the first error.

        A part that cannot be read keeps its known value, so neither part delays the other.
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
