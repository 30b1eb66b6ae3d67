"""Where a server's certificate comes from."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from manager.small_file import read_small_file
from manager.tls.issue import self_signed
from manager.tls.key_pair import CertificateUnusable, KeyPair

__all__ = ["CertificateFiles", "CertificateSource", "ClientAuthorities", "SelfSigned"]

_VALID_FOR = timedelta(days=365)
_RENEWED_AFTER = timedelta(days=240)


class CertificateSource(Protocol):
    """Hands out the certificate that is to be served now."""

    def __str__(self) -> str:
        """Where it comes from, for messages."""

    def pair(self, now: datetime) -> KeyPair:
        """The certificate and its key as they are at `now`; an equal pair means nothing changed.

        It may block, and is called in a thread, never twice at once. Raises `CertificateUnusable`.
        """


class CertificateFiles:
    """Two files that somebody else keeps current: a mounted Secret, or what an administrator put there."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key

    def __str__(self) -> str:
        return f"{self._certificate} and {self._key}"

    def pair(self, now: datetime) -> KeyPair:
        """See `CertificateSource`. Files that are replaced one after the other may not fit for a moment."""
        del now
        return KeyPair(_content(self._certificate), _content(self._key))


class ClientAuthorities:
    """A file with the certificates of those who vouch for clients; somebody else keeps it current."""

    def __init__(self, file: Path, *, required: bool = True) -> None:
        """`required`: who shows no certificate of theirs gets no further than the handshake."""
        self._file = file
        self.required = required

    def read(self) -> bytes:
        """What is in it now, PEM. Blocks. Raises `CertificateUnusable` when there is none, or it has none."""
        content = _content(self._file)
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(
                cadata=content.decode("ascii", "replace")
            )
        except (ssl.SSLError, ValueError) as error:
            raise CertificateUnusable(f"{self._file} has no certificate of an authority in PEM") from error
        return content


class SelfSigned:
    """A certificate made here and trusted by nobody: it encrypts, and proves nothing.

    It exists in this process's memory only, is for `names` (host names and IP addresses), and is replaced
    long before its year is over.
    """

    def __init__(self, names: Sequence[str] = ("localhost", "127.0.0.1", "::1")) -> None:
        self._names = tuple(names)
        self._made: tuple[datetime, KeyPair] | None = None

    def __str__(self) -> str:
        return "self-signed"

    def pair(self, now: datetime) -> KeyPair:
        """See `CertificateSource`."""
        if self._made is None or now >= self._made[0] + _RENEWED_AFTER:
            self._made = now, self_signed(self._names, now, _VALID_FOR)
        return self._made[1]


def _content(path: Path) -> bytes:
    try:
        return read_small_file(path)
    except OSError as error:
        raise CertificateUnusable(f"{path} cannot be read: {error.strerror}") from error
