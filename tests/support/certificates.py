"""The keys and certificates of a throw-away control plane."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_FOR = datetime.timedelta(days=2)
CLOCK_SKEW = datetime.timedelta(minutes=5)


class Authority:
    """A certificate authority that lives in memory; its certificates are for servers and for users."""

    def __init__(self, name: str, *, identifiers: bool = True) -> None:
        """Without `identifiers`, certificates lack the key identifiers of RFC 5280."""
        self._identifiers = identifiers
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(constraints, critical=True).add_extension(usage, critical=True)
        self._certificate = builder.sign(self._key, hashes.SHA256())
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def server(self, name: x509.GeneralName, *names: x509.GeneralName) -> tuple[bytes, bytes]:
        """Issue a certificate and key (PEM) for a server with these names."""
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
        return self._issue(
            subject, ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName([name, *names])
        )

    def user(self, user: str, groups: Sequence[str]) -> tuple[bytes, bytes]:
        """Issue a client certificate and key (PEM) for `user` in `groups` of a Kubernetes API server."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        return self._issue(subject, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(
        self, subject: x509.Name, usage: x509.ObjectIdentifier, names: x509.SubjectAlternativeName | None
    ) -> tuple[bytes, bytes]:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(subject, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM), private_pem(key)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - CLOCK_SKEW)
            .not_valid_after(now + VALID_FOR)
        )
        if not self._identifiers:
            return builder
        authority_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        return builder.add_extension(authority_key, critical=False)


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key in the PEM format that the servers read."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def signing_key() -> bytes:
    """Create a key for service-account tokens (PEM)."""
    return private_pem(ec.generate_private_key(ec.SECP256R1()))


def trusting(authority: bytes | None = None) -> ssl.SSLContext:
    """Return a client's TLS context that trusts one authority, or any server if it is None.

    It does not load the machine's authorities, because that takes longer than many tests.
    """
    if authority is not None:
        return ssl.create_default_context(cadata=authority.decode())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
