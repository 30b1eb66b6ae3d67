"""Pages for those only whom the cluster's API server lets see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar

from manager.access.access import Access, ReviewFailed
from manager.access.answers import TooManyQuestions
from manager.access.reviews import Place, User
from manager.address import client_at
from manager.http.request import Request
from manager.http.response import Response
from manager.http.routes import Page
from manager.logs import get_logger

_UNAUTHORIZED, _FORBIDDEN, _TOO_MANY, _FAILED = 401, 403, 429, 500

_log = get_logger("access")

_asking: ContextVar[User | None] = ContextVar("asking", default=None)

Asks = Callable[[Request], tuple[str, str | Place]]
"""The verb, and on what, that the right to a request is."""


def path_itself(request: Request) -> tuple[str, str]:
    """The request's method on its path."""
    return request.method.lower(), request.path


def who_asks() -> User | None:
    """For whom a guarded page answers; None where nobody was asked for a name."""
    return _asking.get()


def guarded(page: Page, access: Access, asks: Asks = path_itself) -> Page:
    """The same page, for who comes with a bearer token and may do what it `asks` for.

    Answers as controller-runtime does: 401 without a token, 403 for a user without the right to, 500 when
    the API server cannot be asked. (A token that the server refuses is 401 here, and 500 there; and 429 is
    only here, where the server would be asked too often, for unknown tokens or for one user.)

    Client certificates are not asked for, as controller-runtime's filter does not either: the authority
    that the API server trusts for clients is not known to a pod.
    """
    trouble = _Trouble()

    async def show(request: Request) -> Response:
        try:
            return await answer(request)
        except TooManyQuestions as error:
            _log.debug("refused to ask the API server", path=request.path, reason=str(error))
            return _refusal(_TOO_MANY, "Too many questions")

    async def answer(request: Request) -> Response:
        token = _bearer_token(request.headers.getall("Authorization", ()))
        if token is None:
            return _refusal(_UNAUTHORIZED, "Unauthorized")
        try:
            verdict = await access.verdict(token, *asks(request), client=client_at(request.remote))
        except ReviewFailed as error:
            trouble.begins(request.path, str(error))
            what = "Authentication" if error.user is None else f"Authorization for user {error.user.name}"
            return _refusal(_FAILED, f"{what} failed")
        trouble.ends(request.path)
        if verdict.user is None:
            _log.debug("refused a token that the API server does not accept", path=request.path)
            return _refusal(_UNAUTHORIZED, "Unauthorized")
        if not verdict.allowed:
            _log.debug("refused a user", path=request.path, user=verdict.user.name)
            return _refusal(_FORBIDDEN, f"Authorization denied for user {verdict.user.name}")
        _asking.set(verdict.user)  # of the task that answers this request
        return await page(request)

    return show


class _Trouble:
    """Tells of an API server that cannot be asked, once until it can."""

    def __init__(self) -> None:
        self._told = False

    def begins(self, path: str, error: str) -> None:
        if not self._told:
            self._told = True
            _log.warning("cannot ask the API server who may see this page", path=path, error=error)

    def ends(self, path: str) -> None:
        if self._told:
            self._told = False
            _log.info("the API server can be asked again who may see this page", path=path)


def _bearer_token(headers: Sequence[str]) -> str | None:
    """The token of the one Authorization header; None when there is none, or anything else."""
    if len(headers) != 1:
        return None
    scheme, _, token = headers[0].strip().partition(" ")
    token = token.strip()
    if (
        scheme.lower() != "bearer"
        or not token
        or not token.isascii()
        or not token.isprintable()
        or " " in token
    ):
        return None
    return token


def _refusal(status: int, text: str) -> Response:
    headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
    if status == _UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    elif status == _TOO_MANY:
        headers["Retry-After"] = "1"
    return Response(status=status, text=f"{text}\n", headers=headers)
