"""Reviews: the API server names the user of a token, and says whether a user has a right."""

from __future__ import annotations

import asyncio
import random
from base64 import b64decode
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

import msgspec
import orjson

from manager.kube.decoding import Decoder
from manager.kube.errors import ServerError, TooManyRequests, TransportError
from manager.kube.transport import Transport
from manager.util.backoff import ExponentialDelay
from manager.util.clock import now
from manager.util.nesting import is_too_deep

T = TypeVar("T")

_CREDENTIAL = "authentication.kubernetes.io/credential-id"
"""What says which token it was."""

_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    """A user as TokenReviews and SubjectAccessReviews describe them."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Further attributes, such as the pod that a service account's token belongs to."""

    @property
    def by_any_token(self) -> User:
        """Return the same user without the mark of the token: a user may have any number of tokens."""
        return replace(self, extra=tuple(each for each in self.extra if each[0] != _CREDENTIAL))

    @property
    def sharer(self) -> str:
        """Return the name whose limits apply: a service account shares those of its namespace."""
        return self.name.rpartition(":")[0] if self.name.startswith(_ACCOUNT) else self.name


@dataclass(frozen=True, slots=True)
class Place:
    """An object of the cluster, or all of a resource: the subject of a right, if it is not a path."""

    group: str
    resource: str
    namespace: str = ""
    name: str = ""


SLACK = 300.0
"""Seconds that our clock may be ahead of the API server's, and what that allows in its turn."""

_PARTS = 3


class _Head(msgspec.Struct):
    alg: str


class _Expires(msgspec.Struct):
    exp: float


class _Claims(msgspec.Struct):
    aud: str | list[str] = ""
    sub: str = ""


def has_expired(token: str) -> bool:
    """Return whether it is a JSON Web Token that says of itself that it expired a while ago.

    No server may accept such a token (RFC 7519, 4.1.4). Any other text may be a token: the API server may
    know it from a file or ask another program, so neither length nor alphabet rules it out.
    """
    claims = _claims(token, _Expires)
    return claims is not None and claims.exp + SLACK < now().timestamp()


def is_for(token: str, audience: str) -> bool:
    """Return whether it is a JSON Web Token that says of itself that it is for this audience."""
    claims = _claims(token, _Claims)
    return claims is not None and audience in ([claims.aud] if isinstance(claims.aud, str) else claims.aud)


def account_of(token: str) -> tuple[str, str] | None:
    """Return namespace and name of the service account that a token names; None without one."""
    claims = _claims(token, _Claims)
    match claims and claims.sub.split(":"):
        case ["system", "serviceaccount", namespace, name]:
            return namespace, name
    return None


def _claims(token: str, kind: type[T]) -> T | None:
    parts = token.split(".")
    if len(parts) != _PARTS:
        return None
    try:
        head, claims = map(_decoded, parts[:2])
        if is_too_deep(head) or is_too_deep(claims):
            return None
        msgspec.json.decode(head, type=_Head)
        return msgspec.json.decode(claims, type=kind)
    except (ValueError, msgspec.MsgspecError):
        return None


def _decoded(part: str) -> bytes:
    if "=" in part or "+" in part or "/" in part:
        raise ValueError("not base64url without padding")
    return b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)


_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

_ATTEMPTS = 4
"""How often a review is sent at most. It changes nothing, so it may be sent again whatever happened."""

_AUTHENTICATED = "system:authenticated"


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    audiences: list[str] | None = None
    user: _UserInfo = msgspec.field(default_factory=_UserInfo)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus


_decode_token = Decoder(_TokenReview, "a TokenReview")
_decode_access = Decoder(_AccessReview, "a SubjectAccessReview")


class Reviews:
    """Client that creates reviews, which the server answers but does not store."""

    def __init__(self, transport: Transport, *, rng: random.Random, audience: str = "") -> None:
        """Tokens for `audience` are good too, beside those for the API server."""
        self._transport = transport
        self._audience = audience
        self._delay = ExponentialDelay(base=0.2, cap=2.0, jitter=0.2, rng=rng)

    async def user_of(self, token: str) -> User | None:
        """Return the user of a token; None when the server does not accept it.

        Raises KubeError when the server cannot be asked, or does not let us ask.
        """
        spec: dict[str, object] = {"token": token}
        ours = bool(self._audience) and is_for(token, self._audience)
        if ours:
            spec["audiences"] = [self._audience]
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        status = (await self._created(_TOKEN_REVIEWS, review, _decode_token)).status
        # A server that knows of no audiences names none.
        if not status.authenticated or (ours and self._audience not in (status.audiences or ())):
            return None
        found = status.user
        groups = tuple(found.groups or ())
        if _AUTHENTICATED not in groups:
            groups = (*groups, _AUTHENTICATED)
        extra = tuple((key, tuple(values)) for key, values in (found.extra or {}).items())
        return User(found.username, found.uid, groups, extra)

    async def may(self, user: User, verb: str, what: str | Place) -> bool:
        """Return whether a user may do `verb` on an object, or on a path of no resource, such as `/metrics`.

        Raises KubeError as `user_of` does.
        """
        about: dict[str, object]
        if isinstance(what, str):
            about = {"nonResourceAttributes": {"path": what, "verb": verb}}
        else:
            about = {"resourceAttributes": {"verb": verb, **asdict(what)}}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.name,
                "uid": user.uid,
                "groups": list(user.groups),
                "extra": {key: list(values) for key, values in user.extra},
                **about,
            },
        }
        status = (await self._created(_ACCESS_REVIEWS, review, _decode_access)).status
        return status.allowed and not status.denied

    async def _created(self, path: str, review: object, decode: Decoder[T]) -> T:
        body = orjson.dumps(review)
        for attempt in range(_ATTEMPTS):
            try:
                answer = await self._transport.request("POST", path, body=body)
                return decode(answer)
            except (TransportError, ServerError, TooManyRequests):
                if attempt + 1 == _ATTEMPTS:
                    raise
                await asyncio.sleep(self._delay(attempt))
        raise AssertionError
