"""Certificates: parsing those of others, and issuing our own.

Importing `cryptography` takes a tenth of a second and some megabytes, so modules that seldom need it import
this one in a function. Parsing and issuing take a millisecond or more, and belong in a thread.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache

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

CLOCK_SKEW = timedelta(minutes=5)
"""How far the clock of a client may be behind ours: each certificate is valid from so long ago."""

_SHOWN_SERIAL = 8

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")
_KEY = re.compile(rb"-----BEGIN ([A-Z ]{0,20})PRIVATE KEY-----(?:[^-]|-(?!----))+-----END \1PRIVATE KEY-----")

Chance = Callable[[int], bytes]
"""Makes so many bytes for keys and serial numbers, always the same ones: for simulations."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Parsed certificate; equality ignores the text around it."""

    pem: bytes
    """Its block alone, with a line's end."""

    since: datetime
    """When it begins to be valid, in UTC."""

    until: datetime
    """The last moment at which it is valid, in UTC."""

    names: frozenset[str]
    """Host names and IP addresses of the server that it is for."""

    is_authority: bool
    """Whether it may sign others."""

    public_key: bytes = field(repr=False)
    """As `public_key_of` returns it for a private key."""

    _parsed: x509.Certificate = field(repr=False, compare=False)

    def valid_at(self, when: datetime) -> bool:
        """Return whether a clock that shows `when` finds it neither too early nor too late."""
        return self.since <= when <= self.until

    def vouched_for_by(self, authority: Certificate) -> bool:
        """Return whether that authority has signed it, however long either is valid."""
        if not authority.is_authority:
            return False
        try:
            self._parsed.verify_directly_issued_by(authority._parsed)
        except (InvalidSignature, ValueError, TypeError):
            return False
        return True


def certificates_in(pem: bytes) -> tuple[Certificate, ...]:
    """Return each certificate of a text once, in order, and ignore everything else in it."""
    found = (_certificate(block + b"\n") for block in _CERTIFICATE.findall(pem))
    return tuple(dict.fromkeys(each for each in found if each is not None))


def bundled(authorities: Iterable[Certificate]) -> bytes:
    """Concatenate the authorities' PEM texts without duplicates."""
    return b"".join(each.pem for each in dict.fromkeys(authorities))


def keys_in(pem: bytes) -> tuple[bytes, ...]:
    """Return each private key of a text as PEM, in order."""
    return tuple(match.group() + b"\n" for match in _KEY.finditer(pem))


def public_key_of(key: bytes) -> bytes | None:
    """Return the public key of a private key in PEM; None if it is invalid or encrypted."""
    try:
        return _encoded(load_pem_private_key(key, password=None).public_key())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


@lru_cache(maxsize=64)  # the same few are parsed every few seconds
def _certificate(pem: bytes) -> Certificate | None:
    try:
        parsed = x509.load_pem_x509_certificate(pem)
        return Certificate(
            pem=pem,
            since=parsed.not_valid_before_utc,
            until=parsed.not_valid_after_utc,
            names=_names(parsed),
            is_authority=_is_authority(parsed),
            public_key=_encoded(parsed.public_key()),
            _parsed=parsed,
        )
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension):
        return None


def _names(parsed: x509.Certificate) -> frozenset[str]:
    try:
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    return frozenset([*names.get_values_for_type(x509.DNSName), *addresses])


def _is_authority(parsed: x509.Certificate) -> bool:
    try:
        return parsed.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


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
        """Issue a certificate for a server with these host names and IP addresses, and its new key.

        It expires with the authority at the latest. Raises ValueError for an invalid certificate or key.
        """
        own = x509.load_pem_x509_certificate(self.certificate)
        signing = load_pem_private_key(self.key, password=None)
        if not isinstance(signing, ec.EllipticCurvePrivateKey):
            raise ValueError("the authority's key is of another sort than those made here")  # noqa: TRY004
        key, serial = _drawn(chance)
        until = min(now + valid_for, own.not_valid_after_utc)
        builder = _for_server(_builder(_name(names[0]), own.subject, key, now, until, serial), names)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())
        return _pair(builder.add_extension(identifier, critical=False), key, signing, chance)


def new_authority(
    name: str, now: datetime, valid_for: timedelta, *, chance: Chance | None = None
) -> Authority:
    """Create an authority that signs server certificates, but no further authorities.

    Its subject is `name` and a part of its serial number: all subjects in a bundle must differ.
    """
    key, serial = _drawn(chance)
    subject = _name(f"{name} {serial:x}"[: len(name) + 1 + _SHOWN_SERIAL])
    builder = _builder(subject, subject, key, now, now + valid_for, serial)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    made = _pair(builder.add_extension(_usage(signs_certificates=True), critical=True), key, key, chance)
    return Authority(made.certificates, made.key)


def self_signed(names: Sequence[str], now: datetime, valid_for: timedelta) -> KeyPair:
    """Issue a self-signed certificate for a server of these names."""
    key, serial = _drawn(None)
    subject = _name(names[0])
    return _pair(_for_server(_builder(subject, subject, key, now, now + valid_for, serial), names), key, key)


def _drawn(chance: Chance | None) -> tuple[ec.EllipticCurvePrivateKey, int]:
    if chance is None:
        return ec.generate_private_key(ec.SECP256R1()), x509.random_serial_number()
    return ec.derive_private_key(int.from_bytes(chance(32)), ec.SECP256R1()), int.from_bytes(chance(8)) + 1


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    until: datetime,
    serial: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _for_server(builder: x509.CertificateBuilder, names: Sequence[str]) -> x509.CertificateBuilder:
    return (
        builder.add_extension(x509.SubjectAlternativeName(map(_general_name, names)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    signing: ec.EllipticCurvePrivateKey,
    chance: Chance | None = None,
) -> KeyPair:
    certificate = builder.sign(signing, hashes.SHA256(), ecdsa_deterministic=chance is not None)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyPair(certificate.public_bytes(Encoding.PEM), private)


def _name(text: str) -> x509.Name:
    # A common name has at most 64 characters; clients check only the alternative names.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
