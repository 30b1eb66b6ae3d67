"""JSON Web Tokens, signed with ES256. Importing `cryptography` costs a tenth of a second."""

from __future__ import annotations

import base64
import binascii
import hashlib
from pathlib import Path
from typing import Any

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from devcluster.private_files import write_private

__all__ = ["Signer"]

_WIDTH = 32
"""The bytes of each of the two numbers in an ES256 signature."""


class Signer:
    """A signer and verifier with one key, which is generated or read at its first use."""

    def __init__(self, file: Path | None = None) -> None:
        """Set up the signer; `file` keeps the key for the next run, None keeps it in memory."""
        self._file = file
        self._key: ec.EllipticCurvePrivateKey | None = None
        self._head = b""

    def sign(self, claims: dict[str, Any]) -> str:
        """Return a signed token with the claims."""
        key = self._loaded()
        signed = self._head + b"." + _encode(orjson.dumps(claims))
        r, s = utils.decode_dss_signature(key.sign(signed, ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(_WIDTH, "big") + s.to_bytes(_WIDTH, "big")
        return (signed + b"." + _encode(signature)).decode()

    def verify(self, token: str) -> dict[str, Any] | None:
        """Return the token's claims, or None unless this key signed it."""
        key = self._loaded()
        signed, _, last = token.encode("utf-8", "replace").rpartition(b".")
        head, _, payload = signed.partition(b".")
        try:
            signature = _decode(last)
            if head != self._head or len(signature) != 2 * _WIDTH:
                return None
            r, s = int.from_bytes(signature[:_WIDTH], "big"), int.from_bytes(signature[_WIDTH:], "big")
            key.public_key().verify(utils.encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))
            claims: dict[str, Any] = orjson.loads(_decode(payload))
        except (InvalidSignature, ValueError):
            return None
        return claims

    def _loaded(self) -> ec.EllipticCurvePrivateKey:
        if self._key is None:
            self._key = key = self._read() or self._make()
            public = key.public_key().public_bytes(
                serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            identifier = _encode(hashlib.sha256(public).digest()).decode()
            self._head = _encode(orjson.dumps({"alg": "ES256", "kid": identifier}))
        return self._key

    def _read(self) -> ec.EllipticCurvePrivateKey | None:
        if self._file is None or not self._file.exists():
            return None
        try:
            key = load_pem_private_key(self._file.read_bytes(), None)
        except ValueError:  # a damaged key file: existing tokens become invalid
            return None
        return key if isinstance(key, ec.EllipticCurvePrivateKey) else None

    def _make(self) -> ec.EllipticCurvePrivateKey:
        key = ec.generate_private_key(ec.SECP256R1())
        if self._file is not None:
            self._file.parent.mkdir(mode=0o700, exist_ok=True)
            write_private(
                self._file,
                key.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.NoEncryption(),
                ),
            )
        return key


def _encode(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _decode(text: bytes) -> bytes:
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error
