"""Where a server's certificate comes from."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from manager.tls.key_pair import CertificateUnusable, KeyPair

if TYPE_CHECKING:
    from cryptography.x509 import GeneralName

__all__ = ["CertificateFiles", "CertificateSource", "SelfSigned"]

_VALID_FOR = timedelta(days=365)
_RENEWED_AFTER = timedelta(days=240)
_CLOCK_SKEW = timedelta(minutes=5)


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
            self._made = now, _self_signed(self._names, now)
        return self._made[1]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateUnusable(f"{path} cannot be read: {error.strerror}") from error


def _self_signed(names: Sequence[str], now: datetime) -> KeyPair:
    # Only who has no certificate pays for importing what makes one: some megabytes.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALID_FOR)
        .add_extension(x509.SubjectAlternativeName(map(_general_name, names)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )


def _general_name(name: str) -> GeneralName:
    from cryptography import x509  # noqa: PLC0415 - as above

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
