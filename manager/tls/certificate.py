"""Parsing of certificates from other sources: their content and their issuers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")
_KEY = re.compile(rb"-----BEGIN ([A-Z ]{0,20})PRIVATE KEY-----(?:[^-]|-(?!----))+-----END \1PRIVATE KEY-----")


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
    """As `public_key_of` tells it of a private one."""

    _parsed: x509.Certificate = field(repr=False, compare=False)

    def valid_at(self, when: datetime) -> bool:
        """Return whether a clock that shows `when` finds it neither too early nor too late."""
        return self.since <= when <= self.until

    def vouched_for_by(self, authority: Certificate) -> bool:
        """Return whether that authority has signed it; how long either is valid is not looked at."""
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - some megabytes

        if not authority.is_authority:
            return False
        try:
            self._parsed.verify_directly_issued_by(authority._parsed)
        except (InvalidSignature, ValueError, TypeError):
            return False
        return True


def certificates_in(pem: bytes) -> tuple[Certificate, ...]:
    """Each certificate of a text, once, in their order; anything else in it is left out.

    Imports `cryptography` when there is one, and may compute for a millisecond.
    """
    found = (_certificate(block + b"\n") for block in _CERTIFICATE.findall(pem))
    return tuple(dict.fromkeys(each for each in found if each is not None))


def keys_in(pem: bytes) -> tuple[bytes, ...]:
    """Each private key of a text, as PEM, in the order in which they stand there."""
    return tuple(match.group() + b"\n" for match in _KEY.finditer(pem))


def public_key_of(key: bytes) -> bytes | None:
    """Return the public key of a private key in PEM; None if it is invalid or encrypted."""
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    try:
        return _encoded(serialization.load_pem_private_key(key, password=None).public_key())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


@lru_cache(maxsize=64)  # the same few are looked at every some seconds
def _certificate(pem: bytes) -> Certificate | None:
    from cryptography import x509  # noqa: PLC0415 - as above
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415

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
    from cryptography import x509  # noqa: PLC0415 - as above

    try:
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    return frozenset([*names.get_values_for_type(x509.DNSName), *addresses])


def _is_authority(parsed: x509.Certificate) -> bool:
    from cryptography import x509  # noqa: PLC0415 - as above

    try:
        return bool(parsed.extensions.get_extension_for_class(x509.BasicConstraints).value.ca)
    except x509.ExtensionNotFound:
        return False


def _encoded(public_key: object) -> bytes:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - as above

    encoded: bytes = public_key.public_bytes(  # type: ignore[attr-defined] # each sort of key has it
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return encoded
