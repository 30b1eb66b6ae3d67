"""The cluster's certificate authority, which issues certificates for the server and for users."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from devcluster.access.tokens import private_pem

_VALID = datetime.timedelta(days=3650)
_SKEW = datetime.timedelta(hours=1)
"""The maximum time by which a client's clock may be slow, if it is to accept a new certificate."""

Identity = tuple[bytes, bytes]
"""A certificate and its private key, each as PEM."""


class Authority:
    """A certificate authority. All keys are P-256; generating one takes well under a millisecond."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def create(cls, name: str = "devcluster") -> Authority:
        """Make a new self-signed authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = _builder(subject, subject, key, signs=True).add_extension(identifier, critical=False)
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, identity: Identity) -> Authority:
        """Load an authority from its certificate and key; raise ValueError if they are invalid."""
        certificate = x509.load_pem_x509_certificate(identity[0])
        key = load_pem_private_key(identity[1], None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or certificate.public_key() != key.public_key():
            raise ValueError("the certificate and the key do not belong together")
        return cls(certificate, key)

    @property
    def identity(self) -> Identity:
        """Return the authority's own certificate and key as PEM."""
        return _identity(self._certificate, self._key)

    def issue(self, name: str, *, organizations: Sequence[str] = (), hosts: Sequence[str] = ()) -> Identity:
        """Issue a certificate for a server reached at one of `hosts` or, without hosts, for a user.

        `name` is the user's name, `organizations` are the user's groups.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, each) for each in organizations]
            + [x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]
        )
        builder = _builder(subject, self._certificate.subject, key, signs=False)
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in dict.fromkeys(hosts)])
            builder = builder.add_extension(names, critical=False)
        return _identity(builder.sign(self._key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, *, signs: bool
) -> x509.CertificateBuilder:
    """Start building a certificate; `signs` says whether it may sign other certificates."""
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - _SKEW,
        not_valid_after=now + _VALID,
    )
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
    builder = builder.add_extension(x509.BasicConstraints(ca=signs, path_length=None), critical=True)
    return builder.add_extension(usage, critical=True)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _identity(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Identity:
    return certificate.public_bytes(serialization.Encoding.PEM), private_pem(key)
