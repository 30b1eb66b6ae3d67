"""Tokens of ServiceAccounts, and the key that signs them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import random
import uuid
from pathlib import Path
from typing import Any

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from devcluster.clock import Clock
from devcluster.errors import bad_request, conflict, field_invalid, invalid, not_found
from devcluster.http_call import User
from devcluster.private_files import write_private
from devcluster.quantity import quoted
from devcluster.storage.records import Key
from devcluster.storage.store import Store

_WIDTH = 32
"""The length in bytes of each of the two numbers in an ES256 signature."""


class Signer:
    """A signer and verifier with one key, which is generated or read at the first use."""

    def __init__(self, file: Path | None = None) -> None:
        """Set up the signer; `file` stores the key for the next run; with None, the key is only in memory."""
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
        """Return the token's claims, or None if this key has not signed the token."""
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
            write_private(self._file, private_pem(key))
        return key


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the key as PEM, without a password, in the form that kube-apiserver reads too."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _encode(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _decode(text: bytes) -> bytes:
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


AUDIENCE = "https://kubernetes.default.svc"
"""The issuer of tokens, and their audience unless the TokenRequest names another one."""

_GROUP = "authentication.k8s.io"
_BOUND = {("v1", "Pod"): "pods", ("v1", "Secret"): "secrets", ("v1", "Node"): "nodes"}
_DEFAULT_LIFE = 3600
_SHORTEST_LIFE = 600
_LONGEST_LIFE = 1 << 32
_MOST_REMEMBERED = 1000

Object = dict[str, Any]


class ServiceAccountTokens:
    """Issuer and verifier of ServiceAccount tokens.

    A token becomes invalid when it expires, or when its ServiceAccount or bound object is deleted.
    """

    def __init__(self, store: Store, clock: Clock, rng: random.Random, key_file: Path | None = None) -> None:
        """Set up the issuer; `key_file` stores the key for the next run; with None, it is only in memory."""
        self._store = store
        self._clock = clock
        self._rng = rng
        self._signer = Signer(key_file)
        self._verified: dict[str, Object] = {}

    def issue(self, account: Object, request: Object) -> Object:
        """Return the TokenRequest with a token in its status; raise StatusError if it is invalid."""
        metadata = account["metadata"]
        spec = request.get("spec") or {}
        life = spec.get("expirationSeconds")
        life = _DEFAULT_LIFE if life is None else life
        _check_life(life)
        audiences = list(spec.get("audiences") or ()) or [AUDIENCE]
        now = int(self._clock.now().timestamp())
        private: Object = {"namespace": metadata["namespace"]}
        bound = spec.get("boundObjectRef")
        if bound:
            private |= self._bind(bound, metadata)
        private["serviceaccount"] = {"name": metadata["name"], "uid": metadata["uid"]}
        claims = {
            "aud": audiences,
            "exp": now + life,
            "iat": now,
            "iss": AUDIENCE,
            "jti": str(uuid.UUID(int=self._rng.getrandbits(128), version=4)),
            "kubernetes.io": private,
            "nbf": now,
            "sub": f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}",
        }
        expires = self._clock.now().fromtimestamp(now + life, tz=self._clock.now().tzinfo)
        return {
            **request,
            "spec": {"audiences": audiences, "expirationSeconds": life, "boundObjectRef": bound or None},
            "status": {
                "token": self._signer.sign(claims),
                "expirationTimestamp": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
            },
        }

    def verify(self, token: str) -> User | None:
        """Return the token's user, or None if the token is invalid, expired or for another audience."""
        claims = self.claims_of(token)
        if claims is None or AUDIENCE not in claims["aud"]:
            return None
        return self.user_of(claims)

    def claims_of(self, token: str) -> Object | None:
        """Return the claims of a token that is valid now, or None."""
        if token.count(".") != 2:  # noqa: PLR2004 -- header, claims, signature
            return None
        claims = self._verified.get(token)
        if claims is None:
            claims = self._signer.verify(token)
            if claims is None:
                return None
            if len(self._verified) >= _MOST_REMEMBERED:
                self._verified.clear()
            self._verified[token] = claims
        now = self._clock.now().timestamp()
        if not claims["nbf"] <= now + 1 or now >= claims["exp"] or not self._still_there(claims):
            return None
        return claims

    def user_of(self, claims: Object) -> User:
        """Build the ServiceAccount's user from the claims."""
        private = claims["kubernetes.io"]
        extra = {"authentication.kubernetes.io/credential-id": (f"JTI={claims['jti']}",)}
        for kind in ("node", "pod"):
            if kind in private:
                extra[f"authentication.kubernetes.io/{kind}-name"] = (private[kind]["name"],)
                extra[f"authentication.kubernetes.io/{kind}-uid"] = (private[kind]["uid"],)
        groups = (
            "system:serviceaccounts",
            f"system:serviceaccounts:{private['namespace']}",
            "system:authenticated",
        )
        return User(claims["sub"], groups, private["serviceaccount"]["uid"], extra)

    def _bind(self, bound: Object, account: Object) -> Object:
        """Return the token's claims about the object that it is bound to.

        Deleting that object invalidates the token.
        """
        api_version, kind, name = bound.get("apiVersion", ""), bound.get("kind", ""), bound.get("name", "")
        plural = _BOUND.get((api_version, kind))
        if plural is None:
            group, _, version = api_version.rpartition("/")
            shown = f"{group}/{version}, Kind={kind}" if version else f"/, Kind={kind}"
            raise bad_request(f"cannot bind token to object of type {shown}")
        found = self._read(plural, "" if plural == "nodes" else account["namespace"], name)
        if found is None:
            raise not_found("", plural, name)
        uid = found["metadata"]["uid"]
        if bound.get("uid") and bound["uid"] != uid:
            asked = bound["uid"]
            detail = (
                f"the UID in the bound object reference ({asked}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise conflict("", kind, name, detail)
        claims: Object = {kind.lower(): {"name": name, "uid": uid}}
        if plural == "pods":
            if found.get("spec", {}).get("serviceAccountName") != account["name"]:
                shown = quoted(account["name"])
                raise bad_request(
                    f"cannot bind token for serviceaccount {shown} to pod running with different "
                    "serviceaccount name."
                )
            node = found["spec"].get("nodeName")
            if node:
                there = self._read("nodes", "", node)
                claims["node"] = {"name": node, "uid": there["metadata"]["uid"] if there else ""}
        return claims

    def _still_there(self, claims: Object) -> bool:
        private = claims["kubernetes.io"]
        for kind in ("serviceaccount", "pod", "secret", "node"):
            # The node of a pod's token is only information.
            if kind in private and not (kind == "node" and "pod" in private):
                namespace = "" if kind == "node" else private["namespace"]
                stored = self._store.get(Key("", f"{kind}s", namespace, private[kind]["name"]))
                if stored is None or stored.uid != private[kind]["uid"]:
                    return False
        return True

    def _read(self, plural: str, namespace: str, name: str) -> Object | None:
        stored = self._store.get(Key("", plural, namespace, name))
        return None if stored is None else stored.decode()


def _check_life(seconds: int) -> None:
    if not _SHORTEST_LIFE <= seconds <= _LONGEST_LIFE:
        bound = "less than 10 minutes" if seconds < _SHORTEST_LIFE else "larger than 2^32 seconds"
        wrong = field_invalid("spec.expirationSeconds", seconds, f"may not specify a duration {bound}")
        raise invalid(_GROUP, "TokenRequest", "", [wrong])
