"""Stored certificates and the stores that let them outlive a process and be shared between replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol

from manager.tls.certificate import Certificate, certificates_in, keys_in, public_key_of
from manager.tls.issue import Authority
from manager.tls.key_pair import KeyPair

_CERTIFICATE, _KEY, _BUNDLE, _AUTHORITY_KEYS = "tls.crt", "tls.key", "ca.crt", "ca.key"


@dataclass(frozen=True, slots=True)
class Material:
    """PEM texts as stored; any of them may be empty, damaged or written by another program."""

    certificate: bytes = b""
    """`tls.crt`: what servers present."""

    key: bytes = field(default=b"", repr=False)
    """`tls.key`: its private key."""

    bundle: bytes = b""
    """`ca.crt`: the authorities whom clients are to trust, the newest first."""

    authority_keys: bytes = field(default=b"", repr=False)
    """`ca.key`: the private keys of those that still sign."""

    @classmethod
    def of(cls, entries: Mapping[str, bytes]) -> Material:
        """Build the material from the entries of a Secret of type kubernetes.io/tls."""
        return cls(*(entries.get(name, b"") for name in (_CERTIFICATE, _KEY, _BUNDLE, _AUTHORITY_KEYS)))

    def entries(self) -> dict[str, bytes]:
        """Return the texts by their names in a Secret."""
        texts = (self.certificate, self.key, self.bundle, self.authority_keys)
        return dict(zip((_CERTIFICATE, _KEY, _BUNDLE, _AUTHORITY_KEYS), texts, strict=True))

    @property
    def pair(self) -> KeyPair | None:
        """Return the certificate and key that servers present; None if either is missing."""
        return KeyPair(self.certificate, self.key) if self.certificate and self.key else None


class Stored:
    """Interpretation of a material at one moment. Each property takes some milliseconds to compute."""

    def __init__(self, material: Material, now: datetime) -> None:
        self.material = material
        self._now = now

    @cached_property
    def authorities(self) -> tuple[Certificate, ...]:
        """Return the CAs of the bundle that are valid now."""
        found = certificates_in(self.material.bundle)
        return tuple(each for each in found if each.is_authority and each.valid_at(self._now))

    @cached_property
    def signers(self) -> tuple[Certificate, ...]:
        """Return the authorities with a stored key, the newest first."""
        able = [each for each in self.authorities if each.public_key in self._keys]
        # Of two of the same second, the one that stands first was made later.
        return tuple(sorted(able, key=lambda each: each.since, reverse=True))

    @cached_property
    def serving(self) -> Certificate | None:
        """Return the stored certificate that has its key; it may be invalid, or of any issuer."""
        found = certificates_in(self.material.certificate)
        if not found or public_key_of(self.material.key) != found[0].public_key:
            return None
        return found[0]

    def authority(self, signer: Certificate) -> Authority:
        """Return one of `signers` as an authority that can sign."""
        return Authority(signer.pem, self._keys[signer.public_key])

    @cached_property
    def _keys(self) -> dict[bytes, bytes]:
        """Return private keys by their public key."""
        keys = keys_in(self.material.authority_keys)
        return {public: key for key in keys if (public := public_key_of(key)) is not None}


def bundled(authorities: Iterable[Certificate]) -> bytes:
    """Concatenate the authorities' PEM texts without duplicates."""
    return b"".join(each.pem for each in dict.fromkeys(authorities))


class StoreUnusable(Exception):
    """The store cannot be read or written; one line that says what is wrong, never what is in it."""


class Changed(Exception):
    """Conflict: another process wrote meanwhile, so this write did not happen."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Content of a store at the time of reading."""

    material: Material

    version: Any = field(repr=False)
    """Of the store's own: what it needs to tell later whether that is still there."""


class Store(Protocol):
    """Storage of one material."""

    def __str__(self) -> str:
        """Where it is, for messages."""

    async def read(self) -> Snapshot:
        """Return the current content; an empty material if nothing is stored.

        Raises `StoreUnusable` for a problem that does not go away by itself, otherwise a `KubeError`.
        """

    async def write(self, material: Material, instead_of: Snapshot) -> None:
        """Replace what was read as a whole.

        Raises `Changed` when something else is there by now, and what `read` raises. After another error it
        may have been written all the same.
        """
