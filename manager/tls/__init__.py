"""Certificates that our servers present: read from files or made here, and kept current while they run."""

from __future__ import annotations

from manager.tls.key_pair import CertificateUnusable, KeyPair
from manager.tls.served import ServedCertificate
from manager.tls.sources import CertificateFiles, CertificateSource, SelfSigned

__all__ = [
    "CertificateFiles",
    "CertificateSource",
    "CertificateUnusable",
    "KeyPair",
    "SelfSigned",
    "ServedCertificate",
]
