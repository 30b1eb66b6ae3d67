"""Issuing of certificates: CAs, certificates signed by a CA, and self-signed ones.

The `cryptography` package takes some megabytes, so only functions that need it import it. Every function here
computes for a millisecond or more, and belongs in a thread.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from manager.tls.key_pair import KeyPair

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

CLOCK_SKEW = timedelta(minutes=5)
"""How far the clock of who checks a certificate may be behind ours: each is valid from so long ago."""

_SHOWN_SERIAL = 8

Chance = Callable[[int], bytes]
"""Makes so many bytes, of which keys and serial numbers are made, the same from the same: for simulations."""


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority: its certificate, and the key that it signs with. Both are PEM."""

    certificate: bytes
    key: bytes = field(repr=False)

    def issue(
        self, names: Sequence[str], now: datetime, valid_for: timedelta, *, chance: Chance | None = None
    ) -> KeyPair:
        """Issue a certificate for a server with these host names and IP addresses, and its new key.

        It expires with the authority at the latest. `chance` is for simulations. Raises ValueError for an
        invalid certificate or key of the authority.
        """
        from cryptography import x509  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

        own = x509.load_pem_x509_certificate(self.certificate)
        signing = load_pem_private_key(self.key, password=None)
        if not isinstance(signing, ec.EllipticCurvePrivateKey):
            raise ValueError("the authority's key is of another sort than those made here")  # noqa: TRY004
        key, serial = _drawn(chance)
        until = min(now + valid_for, own.not_valid_after_utc)
        builder = _serving(_builder(_name(names[0]), own.subject, key, now, until, serial), names)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())
        return _pair(builder.add_extension(identifier, critical=False), key, signing, chance)


def new_authority(
    name: str, now: datetime, valid_for: timedelta, *, chance: Chance | None = None
) -> Authority:
    """Create an authority that signs server certificates, but no further authorities.

    Its subject is `name` and a part of its serial number. Clients find an issuer by its subject, so all
    subjects in a bundle must differ. `chance` is for simulations.
    """
    from cryptography import x509  # noqa: PLC0415

    key, serial = _drawn(chance)
    subject = _name(f"{name} {serial:x}"[: len(name) + 1 + _SHOWN_SERIAL])
    builder = _builder(subject, subject, key, now, now + valid_for, serial)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    made = _pair(builder, key, key, chance)
    return Authority(made.certificates, made.key)


def self_signed(names: Sequence[str], now: datetime, valid_for: timedelta) -> KeyPair:
    """Issue a self-signed certificate for a server of these names."""
    key, serial = _drawn(None)
    subject = _name(names[0])
    return _pair(_serving(_builder(subject, subject, key, now, now + valid_for, serial), names), key, key)


def _drawn(chance: Chance | None) -> tuple[EllipticCurvePrivateKey, int]:
    """Generate a key and a serial number."""
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    if chance is None:
        return ec.generate_private_key(ec.SECP256R1()), x509.random_serial_number()
    return ec.derive_private_key(int.from_bytes(chance(32)), ec.SECP256R1()), int.from_bytes(chance(8)) + 1


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: EllipticCurvePrivateKey,
    now: datetime,
    until: datetime,
    serial: int,
) -> x509.CertificateBuilder:
    from cryptography import x509  # noqa: PLC0415

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


def _serving(builder: x509.CertificateBuilder, names: Sequence[str]) -> x509.CertificateBuilder:
    from cryptography import x509  # noqa: PLC0415
    from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415

    return (
        builder.add_extension(x509.SubjectAlternativeName(map(_general_name, names)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    from cryptography import x509  # noqa: PLC0415

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
    key: EllipticCurvePrivateKey,
    signing: EllipticCurvePrivateKey,
    chance: Chance | None = None,
) -> KeyPair:
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415

    certificate = builder.sign(signing, hashes.SHA256(), ecdsa_deterministic=chance is not None)
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )


def _name(text: str) -> x509.Name:
    from cryptography import x509  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    # A common name has at most 64 characters; clients check only the alternative names.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _general_name(name: str) -> x509.GeneralName:
    from cryptography import x509  # noqa: PLC0415

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
