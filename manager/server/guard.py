"""Handlers only for users whom the cluster's API server lets call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar

from aiohttp import web
from aiohttp.typedefs import Handler

from manager.server.access import Access, ReviewFailed
from manager.server.answers import TooManyQuestions
from manager.server.reviews import Place, User
from manager.telemetry.logs import get_logger
from manager.util.address import client_at

_UNAUTHORIZED, _FORBIDDEN, _TOO_MANY, _FAILED = 401, 403, 429, 500

_log = get_logger("access")

_asking: ContextVar[User | None] = ContextVar("asking", default=None)

Asks = Callable[[web.Request], tuple[str, str | Place]]
"""Returns the right that a request needs: a verb, and a path or an object."""


def path_itself(request: web.Request) -> tuple[str, str]:
    """Ask for the right to the request's method on its path."""
    return request.method.lower(), request.path


def who_asks() -> User | None:
    """Return the user whom a guarded handler answers; None where no handler is guarded."""
    return _asking.get()


def guarded(handler: Handler, access: Access, asks: Asks = path_itself) -> Handler:
    """Return a handler for clients with a bearer token whose user has the right that it `asks` for.

    Answers as controller-runtime does: 401 without a token, 403 for a user without the right to, 500 when
    the API server cannot be asked. (A token that the server refuses is 401 here, and 500 there; and 429 is
    only here, where the server would be asked too often, for unknown tokens or for one user.)

    Client certificates are not asked for, as controller-runtime's filter does not either: the authority
    that the API server trusts for clients is not known to a pod.
    """
    outage = _Outage()

    async def answer(request: web.Request) -> web.StreamResponse:
        token = _bearer_token(request.headers.getall("Authorization", ()))
        if token is None:
            return _refusal(_UNAUTHORIZED, "Unauthorized")
        try:
            verdict = await access.verdict(token, *asks(request), client=client_at(request.remote))
            outage.ends(request.path)
            if verdict.user is None:
                _log.debug("refused a token that the API server does not accept", path=request.path)
                return _refusal(_UNAUTHORIZED, "Unauthorized")
            if not verdict.allowed:
                _log.debug("refused a user", path=request.path, user=verdict.user.name)
                return _refusal(_FORBIDDEN, f"Authorization denied for user {verdict.user.name}")
            _asking.set(verdict.user)  # of the task that answers this request
            return await handler(request)
        except ReviewFailed as error:
            outage.begins(request.path, str(error))
            what = "Authentication" if error.user is None else f"Authorization for user {error.user.name}"
            return _refusal(_FAILED, f"{what} failed")
        except TooManyQuestions as error:
            _log.debug("refused to ask the API server", path=request.path, reason=str(error))
            return _refusal(_TOO_MANY, "Too many questions")

    return answer


class _Outage:
    """Log of the API server's outages, once per outage."""

    def __init__(self) -> None:
        self._logged = False

    def begins(self, path: str, error: str) -> None:
        if not self._logged:
            self._logged = True
            _log.warning("cannot ask the API server who may see this page", path=path, error=error)

    def ends(self, path: str) -> None:
        if self._logged:
            self._logged = False
            _log.info("the API server can be asked again who may see this page", path=path)


def _bearer_token(headers: Sequence[str]) -> str | None:
    """Return the token of the only Authorization header; None when there is none, or anything else."""
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


def _refusal(status: int, text: str) -> web.Response:
    headers = {"Cache-Control": "no-store"}
    if status == _UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    elif status == _TOO_MANY:
        headers["Retry-After"] = "1"
    return web.Response(status=status, text=f"{text}\n", headers=headers)
