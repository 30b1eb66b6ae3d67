"""Reviews of tokens and rights by the API server, with as few requests as possible."""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
from base64 import b64decode
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

import msgspec
import orjson

from manager.kube.decoding import Decoder
from manager.kube.errors import KubeError, ServerError, TooManyRequests, TransportError
from manager.kube.transport import Transport
from manager.util.backoff import ExponentialDelay
from manager.util.clock import now
from manager.util.nesting import is_too_deep
from manager.util.rate_limit import TokenBucket

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ACCEPTED_TOKEN_KEPT, REFUSED_TOKEN_KEPT = 60.0, 10.0
"""Seconds for which a TokenReview's result is valid."""

ALLOWED_KEPT, DENIED_KEPT = 300.0, 30.0
"""Seconds for which a SubjectAccessReview's result is valid."""

REMEMBERED = 1024
"""The number of cached results of each kind: accepted tokens, refused tokens, rights and denials."""

DEADLINE = 8.0
"""Seconds for both reviews together. Prometheus gives up after 10 s by default, without seeing the reason."""

STRANGERS_AT_ONCE, STRANGERS_PER_SECOND = 4, 20
"""The number of reviews of a kind at once, and per second on average, for clients without an accepted one."""

WAITING = 8
"""The number of reviews of such a client that wait or are in progress; more are refused."""

PATIENCE = 5.0
"""Seconds that such a client waits for its turn."""

SLACK = 300.0
"""Seconds by which our clock may be ahead of the API server's, including the server's tolerance."""

_ATTEMPTS = 4
"""The maximum number of attempts of a review, which changes nothing and can be repeated."""

_CREDENTIAL = "authentication.kubernetes.io/credential-id"
"""The attribute of a user that identifies the token."""

_ACCOUNT = "system:serviceaccount:"
_AUTHENTICATED = "system:authenticated"

_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@dataclass(frozen=True, slots=True)
class User:
    """A user as described in TokenReviews and SubjectAccessReviews."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Further attributes, such as the pod that a service account's token belongs to."""

    @property
    def by_any_token(self) -> User:
        """Return the user without the token's identifier, because a user may have any number of tokens."""
        return replace(self, extra=tuple(each for each in self.extra if each[0] != _CREDENTIAL))

    @property
    def sharer(self) -> str:
        """Return the name for limits per user; all service accounts of a namespace have the same name."""
        return self.name.rpartition(":")[0] if self.name.startswith(_ACCOUNT) else self.name


@dataclass(frozen=True, slots=True)
class Place:
    """The target of a right: an object, or all objects of a resource. A URL path is a `str` instead."""

    group: str
    resource: str
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The user of a token (None if the API server refuses the token), and whether the request is allowed."""

    user: User | None
    allowed: bool


class ReviewFailed(KubeError):
    """The API server's review failed; the message gives the reason, but never contains the token."""

    def __init__(self, message: str, user: User | None = None) -> None:
        """Create the error; "" means no answer in time; `user` is known if only the right's review failed."""
        super().__init__(message or f"the API server did not answer within {DEADLINE:g} s")
        self.user = user


class TooManyQuestions(Exception):
    """Too many reviews are waiting, so the API server is not asked about this token or right."""


class _Head(msgspec.Struct):
    alg: str


class Claims(msgspec.Struct):
    """The claims of a JSON Web Token."""

    exp: float = math.inf
    aud: str | list[str] = ""
    sub: str = ""

    @property
    def have_expired(self) -> bool:
        """Return whether the token expired more than `SLACK` ago, so that no server accepts it (RFC 7519)."""
        return self.exp + SLACK < now().timestamp()

    def are_for(self, audience: str) -> bool:
        """Return whether the token is for this audience."""
        return audience in ([self.aud] if isinstance(self.aud, str) else self.aud)


def claims_of(token: str) -> Claims:
    """Return the claims of a JSON Web Token; empty claims for other text, which may also be a valid token."""
    try:
        head, claims, _ = token.split(".")
        decoded = _decoded(head), _decoded(claims)
        if any(map(is_too_deep, decoded)):
            return Claims()
        msgspec.json.decode(decoded[0], type=_Head)
        return msgspec.json.decode(decoded[1], type=Claims)
    except (ValueError, msgspec.MsgspecError):
        return Claims()


def _decoded(part: str) -> bytes:
    if "=" in part or "+" in part or "/" in part:
        raise ValueError("not base64url without padding")
    return b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    audiences: list[str] | None = None
    user: _UserInfo = msgspec.field(default_factory=_UserInfo)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _Review(msgspec.Struct, Generic[V]):
    status: V


_decode_token = Decoder(_Review[_TokenStatus], "a TokenReview")
_decode_access = Decoder(_Review[_AccessStatus], "a SubjectAccessReview")


class Access:
    """A client for the API server's reviews of tokens and rights, with a cache.

    Results are cached as long as in controller-runtime (pkg/metrics/filters/filters.go), except for a refused
    token. So a withdrawn right ends after five minutes at the latest, and a revoked token after one minute.
    """

    def __init__(self, transport: Transport, *, rng: random.Random, audience: str = "") -> None:
        """Create a client; `rng` is the source of jitter. Tokens for `audience` are accepted, too."""
        self._transport = transport
        self._audience = audience
        self.answered = 0
        """The number of reviews that the API server has answered."""
        self._delay = ExponentialDelay(base=0.2, cap=2.0, jitter=0.2, rng=rng)
        self._users: Answers[bytes, User | None] = Answers(
            limit=REMEMBERED, keep_yes=ACCEPTED_TOKEN_KEPT, keep_no=REFUSED_TOKEN_KEPT
        )
        self._rights: Answers[tuple[User, str, str | Place], bool] = Answers(
            limit=REMEMBERED, keep_yes=ALLOWED_KEPT, keep_no=DENIED_KEPT
        )
        self._token_turns, self._right_turns = _Turns(), _Turns()

    async def verdict(self, token: str, verb: str, what: str | Place, *, client: str = "") -> Verdict:
        """Return whether the bearer of `token` may do `verb` (for a path, a lower-case method) on `what`.

        Reviews of one `client`'s unknown tokens wait for each other, and take turns with those of
        other clients. Raises `ReviewFailed` if a review fails or takes too long, and `TooManyQuestions` if
        too many reviews wait already.
        """
        if claims_of(token).have_expired:
            return Verdict(None, allowed=False)
        user: User | None = None
        try:
            async with asyncio.timeout(DEADLINE):
                user = await self._user_of(token, client)
                return Verdict(user, user is not None and await self.may(user, verb, what))
        except (KubeError, TimeoutError) as error:
            raise ReviewFailed(str(error), user) from error

    async def may(self, user: User, verb: str, what: str | Place) -> bool:
        """Return whether a user has a right. Raises `ReviewFailed` and `TooManyQuestions`."""
        question = user.by_any_token, verb, what

        async def ask() -> bool:
            # Any pod has a token, and can choose the requested right.
            stranger = None if self._rights.was_yes(question) else user.sharer
            async with self._right_turns.turn(stranger), asyncio.timeout(DEADLINE):
                return await self._review_right(user, verb, what)

        try:
            return await self._rights.get(question, ask)
        except (KubeError, TimeoutError) as error:
            raise ReviewFailed(str(error), user) from error

    async def _user_of(self, token: str, client: str) -> User | None:
        # Hash tokens, so that the cache contains none.
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()

        async def ask() -> User | None:
            stranger = None if self._users.was_yes(digest) else client
            async with self._token_turns.turn(stranger), asyncio.timeout(DEADLINE):
                return await self._review_token(token)

        return await self._users.get(digest, ask)

    async def _review_token(self, token: str) -> User | None:
        spec: dict[str, object] = {"token": token}
        ours = bool(self._audience) and claims_of(token).are_for(self._audience)
        if ours:
            spec["audiences"] = [self._audience]
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        status = await self._create(_TOKEN_REVIEWS, review, _decode_token)
        # A server without support for audiences returns none.
        if not status.authenticated or (ours and self._audience not in (status.audiences or ())):
            return None
        found = status.user
        groups = tuple(found.groups or ())
        if _AUTHENTICATED not in groups:
            groups = (*groups, _AUTHENTICATED)
        extra = tuple((key, tuple(values)) for key, values in (found.extra or {}).items())
        return User(found.username, found.uid, groups, extra)

    async def _review_right(self, user: User, verb: str, what: str | Place) -> bool:
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
        status = await self._create(_ACCESS_REVIEWS, review, _decode_access)
        return status.allowed and not status.denied

    async def _create(self, path: str, review: object, decode: Decoder[_Review[V]]) -> V:
        body = orjson.dumps(review)
        for attempt in range(_ATTEMPTS):
            try:
                review_status = decode(await self._transport.request("POST", path, body=body)).status
                self.answered += 1
                return review_status
            except (TransportError, ServerError, TooManyRequests):
                if attempt + 1 == _ATTEMPTS:
                    raise
                await asyncio.sleep(self._delay(attempt))
        raise AssertionError


class Answers(Generic[K, V]):
    """A bounded cache of results by question; concurrent callers of `get` share one call of `find`.

    Truthy and falsy results have separate limits, because any client can cause falsy results. The call is
    cancelled when no caller waits for it any more. Its exception is raised in all callers, and not cached.
    """

    def __init__(self, *, limit: int, keep_yes: float, keep_no: float) -> None:
        """Cache up to `limit` truthy results for `keep_yes` seconds, and as many falsy ones for `keep_no`."""
        self._limit = limit
        self._kept = {True: keep_yes, False: keep_no}
        self._values: dict[K, V] = {}
        """Valid answers. They may be large, so a timer drops those that are too old."""
        self._known: dict[bool, OrderedDict[K, asyncio.TimerHandle]] = {
            True: OrderedDict(),
            False: OrderedDict(),
        }
        """By result (true or other): the answered questions, last used last, with their answers' timers."""
        self._searches: dict[K, _Search[V]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

    def was_yes(self, question: K) -> bool:
        """Return whether the last result was truthy, even if it has expired."""
        return question in self._known[True]

    async def get(self, question: K, find: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Return the cached result, or else the result of `find`; raises the errors of `find`."""
        if question in self._values:
            self._known[question in self._known[True]].move_to_end(question)
            return self._values[question]
        search = self._searches.get(question)
        if search is None:
            search = self._searches[question] = _Search(asyncio.create_task(find(), name="review"))
        search.waiting += 1
        try:
            # Not a plain await, which would cancel the task together with the first caller.
            await asyncio.wait([search.task])
            found = search.task.result()
        finally:
            search.waiting -= 1
            # Later callers share neither a failure nor an abandoned search.
            if self._searches.get(question) is search and (search.task.done() or not search.waiting):
                del self._searches[question]
            if not search.waiting and not search.task.done():
                search.task.cancel()
                await asyncio.wait([search.task])
        self._remember(question, found)
        return found

    def _remember(self, question: K, found: V) -> None:
        for known in self._known.values():
            if question in known:
                known.pop(question).cancel()
        sort = bool(found)
        known, later = self._known[sort], asyncio.get_running_loop().call_later
        self._values[question] = found
        known[question] = later(self._kept[sort], self._values.pop, question, None)
        while len(known) > self._limit:
            oldest, timer = known.popitem(last=False)
            timer.cancel()
            self._values.pop(oldest, None)


@dataclass(eq=False, slots=True)
class _Search(Generic[V]):
    task: asyncio.Task[V]
    waiting: int = 0


class _CountedLock(asyncio.Lock):
    waiting = 0


class _Turns:
    """The order of reviews: many reviews of one client do not delay a review of another client."""

    def __init__(self) -> None:
        self._all_strangers = asyncio.Semaphore(STRANGERS_AT_ONCE)
        self._pace = TokenBucket(rate=STRANGERS_PER_SECOND, burst=STRANGERS_PER_SECOND)
        self._strangers = WeakValueDictionary[str, _CountedLock]()

    @asynccontextmanager
    async def turn(self, name: str | None) -> AsyncIterator[None]:
        """Wait until client `name` may send a review (None: at once). Raises `TooManyQuestions`."""
        if name is None:
            yield
            return
        stranger = self._strangers.setdefault(name, _CountedLock())
        if stranger.waiting >= WAITING:
            raise TooManyQuestions(f"{WAITING} access reviews of one client or user already wait")
        stranger.waiting += 1
        try:
            async with AsyncExitStack() as stack:
                try:
                    async with asyncio.timeout(PATIENCE):
                        # The common queue contains one review of each client, so all clients take turns.
                        await stack.enter_async_context(stranger)
                        await stack.enter_async_context(self._all_strangers)
                        await self._pace.acquire()
                except TimeoutError:
                    raise TooManyQuestions("too many access reviews already wait") from None
                yield
        finally:
            stranger.waiting -= 1
