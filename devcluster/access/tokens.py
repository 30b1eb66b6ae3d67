"""Tokens of ServiceAccounts, issued by TokenRequests."""

from __future__ import annotations

import functools
import random
import uuid
from typing import TYPE_CHECKING, Any

from devcluster.access.attributes import quoted
from devcluster.errors import bad_request, conflict, field_invalid, invalid, not_found
from devcluster.http_call import User
from devcluster.storage.records import Key

if TYPE_CHECKING:
    from pathlib import Path

    from devcluster.access.jwt import Signer
    from devcluster.clock import Clock
    from devcluster.storage.store import Store

__all__ = ["AUDIENCE", "ServiceAccountTokens"]

AUDIENCE = "https://kubernetes.default.svc"
"""The audience and the issuer of tokens, unless the TokenRequest names another audience."""

_GROUP = "authentication.k8s.io"
_BOUND = {("v1", "Pod"): "pods", ("v1", "Secret"): "secrets", ("v1", "Node"): "nodes"}
_DEFAULT_LIFE = 3600
_SHORTEST_LIFE = 600
_LONGEST_LIFE = 1 << 32
_MOST_REMEMBERED = 1000

Object = dict[str, Any]


class ServiceAccountTokens:
    """Issuer and verifier of ServiceAccount tokens.

    A token becomes invalid with its time, its ServiceAccount, and the object it is bound to.
    """

    def __init__(self, store: Store, clock: Clock, rng: random.Random, key_file: Path | None = None) -> None:
        """Set up the issuer; `key_file` keeps the key for the next run, None keeps it in memory."""
        self._store = store
        self._clock = clock
        self._rng = rng
        self._key_file = key_file
        self._verified: dict[str, Object] = {}

    @functools.cached_property
    def _signer(self) -> Signer:
        from devcluster.access.jwt import Signer  # noqa: PLC0415 -- 0.1 s, and often not needed

        return Signer(self._key_file)

    def issue(self, account: Object, request: Object) -> Object:
        """Return the TokenRequest with the issued token in its status.

        Raises:
            StatusError: the request is invalid.
        """
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
        """Return the claims for the object whose deletion ends the token."""
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
        for kind, plural in (("serviceaccount", "serviceaccounts"), ("pod", "pods"), ("secret", "secrets")):
            if kind in private:
                stored = self._store.get(Key("", plural, private["namespace"], private[kind]["name"]))
                if stored is None or stored.uid != private[kind]["uid"]:
                    return False
        return True

    def _read(self, plural: str, namespace: str, name: str) -> Object | None:
        stored = self._store.get(Key("", plural, namespace, name))
        return None if stored is None else stored.decode()


def _check_life(seconds: int) -> None:
    if seconds < _SHORTEST_LIFE:
        problem = "may not specify a duration less than 10 minutes"
    elif seconds > _LONGEST_LIFE:
        problem = "may not specify a duration larger than 2^32 seconds"
    else:
        return
    raise invalid(_GROUP, "TokenRequest", "", [field_invalid("spec.expirationSeconds", seconds, problem)])
