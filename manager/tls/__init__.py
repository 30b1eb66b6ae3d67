"""Certificates that our servers present: read from files or made here, and kept current while they run."""

from __future__ import annotations

from manager.tls.certificate import Certificate, certificates_in, keys_in, public_key_of
from manager.tls.issue import CLOCK_SKEW, Authority, new_authority
from manager.tls.key_pair import CertificateUnusable, KeyPair
from manager.tls.served import (
    CertificateFiles,
    CertificateSource,
    ClientAuthorities,
    SelfSigned,
    ServedCertificate,
)

__all__ = [
    "CLOCK_SKEW",
    "Authority",
    "Certificate",
    "CertificateFiles",
    "CertificateSource",
    "CertificateUnusable",
    "ClientAuthorities",
    "KeyPair",
    "SelfSigned",
    "ServedCertificate",
    "certificates_in",
    "keys_in",
    "new_authority",
    "public_key_of",
]
