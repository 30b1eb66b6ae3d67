"""Decisions about users, with as few questions to the API server as possible."""

from __future__ import annotations

import asyncio
import hashlib
import random
from dataclasses import dataclass

from manager.kube.errors import KubeError
from manager.kube.transport import Transport
from manager.server.answers import Answers, Turns
from manager.server.reviews import Place, Reviews, User, has_expired

ACCEPTED_TOKEN_KEPT = 60.0
"""Seconds for which a token that the server accepted counts as accepted."""

REFUSED_TOKEN_KEPT = 10.0
"""Seconds for which a token that the server refused counts as refused."""

ALLOWED_KEPT = 300.0
"""Seconds for which what was allowed stays allowed."""

DENIED_KEPT = 30.0
"""Seconds for which what was denied stays denied."""

REMEMBERED = 1024
"""Answers remembered at once: of tokens accepted, tokens refused, rights and denials each."""

DEADLINE = 8.0
"""Seconds for both questions together. Prometheus gives up after 10 by default, and would not see why."""


class ReviewFailed(Exception):
    """The API server could not be asked; the message says why, and never has the token in it."""

    def __init__(self, message: str, user: User | None = None) -> None:
        """`user` is known when it is their right that could not be asked for."""
        super().__init__(message)
        self.user = user


@dataclass(frozen=True, slots=True)
class Verdict:
    """The user of a token, None if the API server does not accept it, and whether the request is allowed."""

    user: User | None
    allowed: bool


class Access:
    """Client for the API server's checks of tokens and permissions, with a cache.

    The times are those of controller-runtime (pkg/metrics/filters/filters.go, in
    WithAuthenticationAndAuthorization: CacheTTL of one minute for tokens, AllowCacheTTL of five minutes and
    DenyCacheTTL of 30 s for rights), but for a refused token, which it keeps for a minute too, or not at
    all if the server said why. Bounds are ours: k8s.io/apiserver keeps 8,192 rights and, in its newer
    versions, any number of tokens.

    A right that is taken back is therefore gone after five minutes at the latest, a token that is revoked
    after one.
    """

    def __init__(self, transport: Transport, *, rng: random.Random, audience: str = "") -> None:
        """`transport` carries the reviews; `rng` is the source of jitter.

        Tokens are good that are for the API server, and those for this `audience`, if there is one.
        """
        self._reviews = Reviews(transport, rng=rng, audience=audience)
        self._users: Answers[bytes, User | None] = Answers(
            limit=REMEMBERED, keep_yes=ACCEPTED_TOKEN_KEPT, keep_no=REFUSED_TOKEN_KEPT
        )
        self._rights: Answers[tuple[User, str, str | Place], bool] = Answers(
            limit=REMEMBERED, keep_yes=ALLOWED_KEPT, keep_no=DENIED_KEPT
        )
        self._token_turns = Turns()
        self._right_turns = Turns()

    async def verdict(self, token: str, verb: str, what: str | Place, *, client: str = "") -> Verdict:
        """Return whether the bearer of `token` may do `verb` on `what`: on a path, a method in small letters.

        Unknown tokens of one `client` wait for each other, and other clients do not wait for them. Questions
        of one user about rights that were not granted yet do the same.
        Raises `ReviewFailed` when the API server does not answer in time, `TooManyQuestions` when it is not
        asked.
        """
        if has_expired(token):
            return Verdict(None, allowed=False)
        user: User | None = None
        try:
            async with asyncio.timeout(DEADLINE):
                user = await self._user_of(token, client)
                return Verdict(user, user is not None and await self.may(user, verb, what))
        except TimeoutError:
            raise ReviewFailed(f"the API server did not answer within {DEADLINE:g} s", user) from None
        except KubeError as error:
            raise ReviewFailed(str(error), user) from error

    async def _user_of(self, token: str, client: str) -> User | None:
        # Hash tokens, so that a memory dump reveals none.
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()

        async def ask() -> User | None:
            known = self._users.was_yes(digest)
            turns = self._token_turns
            turn = turns.of_known() if known else turns.of_stranger(client)
            async with turn, asyncio.timeout(DEADLINE):
                return await self._reviews.user_of(token)

        return await self._users.get(digest, ask)

    async def may(self, user: User, verb: str, what: str | Place) -> bool:
        """Return whether a user has a right.

        Raises KubeError when the server cannot be asked, and `TooManyQuestions` when that is not tried.
        """
        question = user.by_any_token, verb, what

        async def ask() -> bool:
            # Any pod has a token, and it chooses what is asked for.
            known, turns = self._rights.was_yes(question), self._right_turns
            turn = turns.of_known() if known else turns.of_stranger(user.sharer)
            async with turn, asyncio.timeout(DEADLINE):
                return await self._reviews.may(user, verb, what)

        return await self._rights.get(question, ask)
