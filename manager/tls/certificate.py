"""Parsing of certificates of any issuer, and issuing of our own certificates.

Importing `cryptography` takes some 30 milliseconds and 8 MB, so modules that seldom need it import
this module in a function. Parsing and issuing block for a millisecond or more.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from manager.tls.key_pair import KeyPair

E = TypeVar("E", bound=x509.ExtensionType)

CLOCK_SKEW = timedelta(minutes=5)
"""The tolerance for clients' slow clocks: the validity of each certificate begins this much earlier."""

_SHOWN_SERIAL = 8

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")
_KEY = re.compile(rb"-----BEGIN ([A-Z ]{0,20})PRIVATE KEY-----(?:[^-]|-(?!----))+-----END \1PRIVATE KEY-----")

_NAMES = (x509.DNSName, x509.IPAddress)

Chance = Callable[[int], bytes]
"""Returns as many bytes for keys and serial numbers; a repeated simulation gets the same sequence."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A parsed certificate; equality ignores the text around it."""

    pem: bytes
    """The PEM block alone, with a final newline."""

    since: datetime
    """The beginning of the validity in UTC."""

    until: datetime
    """The last moment of the validity in UTC."""

    names: frozenset[str]
    """The server's host names and IP addresses in the certificate."""

    is_authority: bool
    """Whether it may sign others."""

    public_key: bytes = field(repr=False)
    """The public key, in the form of `public_key_of`."""

    _parsed: x509.Certificate = field(repr=False, compare=False)

    def valid_at(self, when: datetime) -> bool:
        """Return whether the time `when` is in the validity period."""
        return self.since <= when <= self.until

    def vouched_for_by(self, authority: Certificate) -> bool:
        """Return whether the authority has signed the certificate, without checking the validity periods."""
        if not authority.is_authority:
            return False
        try:
            self._parsed.verify_directly_issued_by(authority._parsed)
        except (InvalidSignature, ValueError, TypeError):
            return False
        return True


def certificates_in(pem: bytes) -> tuple[Certificate, ...]:
    """Return each certificate in a text once, in order, and ignore everything else."""
    found = (_certificate(block + b"\n") for block in _CERTIFICATE.findall(pem))
    return tuple(dict.fromkeys(each for each in found if each is not None))


def bundled(authorities: Iterable[Certificate]) -> bytes:
    """Concatenate the authorities' PEM texts without duplicates."""
    return b"".join(each.pem for each in dict.fromkeys(authorities))


def keys_in(pem: bytes) -> tuple[bytes, ...]:
    """Return each private key in a text as PEM, in order."""
    return tuple(match.group() + b"\n" for match in _KEY.finditer(pem))


def public_key_of(key: bytes) -> bytes | None:
    """Return the public key of a private key in PEM; None for an invalid or encrypted private key."""
    try:
        return _encoded(load_pem_private_key(key, password=None).public_key())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


@lru_cache(maxsize=64)  # the same few are parsed every few seconds
def _certificate(pem: bytes) -> Certificate | None:
    try:
        parsed = x509.load_pem_x509_certificate(pem)
        names = _extension(parsed, x509.SubjectAlternativeName)
        constraints = _extension(parsed, x509.BasicConstraints)
        return Certificate(
            pem=pem,
            since=parsed.not_valid_before_utc,
            until=parsed.not_valid_after_utc,
            names=frozenset(str(each.value) for each in names or () if isinstance(each, _NAMES)),
            is_authority=constraints is not None and constraints.ca,
            public_key=_encoded(parsed.public_key()),
            _parsed=parsed,
        )
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension):
        return None


def _extension(parsed: x509.Certificate, kind: type[E]) -> E | None:
    try:
        return parsed.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _encoded(public_key: PublicKeyTypes) -> bytes:
    return public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority: its certificate and its signing key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)

    def issue(
        self, names: Sequence[str], now: datetime, valid_for: timedelta, *, chance: Chance | None = None
    ) -> KeyPair:
        """Issue a certificate for a server with these host names and IP addresses, and create its key.

        It expires no later than the authority. Raises ValueError for an invalid certificate or key.
        """
        own = x509.load_pem_x509_certificate(self.certificate)
        signing = load_pem_private_key(self.key, password=None)
        if not isinstance(signing, ec.EllipticCurvePrivateKey):
            raise ValueError("the authority's key is not an elliptic-curve key")  # noqa: TRY004
        until = min(now + valid_for, own.not_valid_after_utc)
        return _make(names[0], names, now, until, chance, issuer=(own.subject, signing))


def new_authority(
    name: str, now: datetime, valid_for: timedelta, *, chance: Chance | None = None
) -> Authority:
    """Create an authority that signs server certificates, but no further authorities.

    Its subject consists of `name` and a part of its serial number: all subjects in a bundle must differ.
    """
    made = _make(name, (), now, now + valid_for, chance)
    return Authority(made.certificates, made.key)


def self_signed(names: Sequence[str], now: datetime, valid_for: timedelta) -> KeyPair:
    """Issue a self-signed certificate for a server with these names."""
    return _make(names[0], names, now, now + valid_for)


def _make(
    subject: str,
    names: Sequence[str],
    now: datetime,
    until: datetime,
    chance: Chance | None = None,
    *,
    issuer: tuple[x509.Name, ec.EllipticCurvePrivateKey] | None = None,
) -> KeyPair:
    """Create a key and its certificate, for a server with `names` or (without names) for an authority.

    Without an issuer, the certificate is self-signed.
    """
    if chance is None:
        key, serial = ec.generate_private_key(ec.SECP256R1()), x509.random_serial_number()
    else:
        key = ec.derive_private_key(int.from_bytes(chance(32)), ec.SECP256R1())
        serial = int.from_bytes(chance(8)) + 1
    is_authority = not names
    if is_authority:
        subject = f"{subject} {serial:x}"[: len(subject) + 1 + _SHOWN_SERIAL]
    # A common name has at most 64 characters; clients check only the alternative names.
    own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject[:64])])
    issuer_name, signing = issuer or (own, key)
    # Its fields in order: digital signature, 4 other uses, signing of certificates and of revocation lists, 2
    # others.
    usage = x509.KeyUsage(
        not is_authority, False, False, False, False, is_authority, is_authority, False, False
    )
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
        (x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), True),
        (usage, True),
    ]
    if not is_authority:
        extensions.append((x509.SubjectAlternativeName(map(_general_name, names)), False))
        extensions.append((x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False))
    if issuer is not None:
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())
        extensions.append((identifier, False))
    builder = x509.CertificateBuilder(issuer_name, own, key.public_key(), serial, now - CLOCK_SKEW, until)
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    certificate = builder.sign(signing, hashes.SHA256(), ecdsa_deterministic=chance is not None)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyPair(certificate.public_bytes(Encoding.PEM), private)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
