"""Brings the console of a cluster to a browser on this machine, which has no token to send."""

from __future__ import annotations

import hmac
import secrets
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from yarl import URL

from manager.address import is_loopback, split_address
from manager.http.server import Page
from manager.kube.errors import ConfigError

if TYPE_CHECKING:
    from aiohttp import ClientSession, web

ANY_PATH = "/{path:.*}"

_SEE_OTHER, _UNAUTHORIZED, _FORBIDDEN, _MISDIRECTED, _BAD_GATEWAY = 303, 401, 403, 421, 502
_PATIENCE = 5.0
"""Seconds for the manager to take a connection."""

_SILENCE = 90.0
"""Seconds without a word from it: a stream ends before that."""

_KEY = "key"
"""The query that tells the key, in the address that is printed."""

_TOLD = (
    "Cache-Control",
    "Content-Security-Policy",
    "Content-Type",
    "Cross-Origin-Opener-Policy",
    "Cross-Origin-Resource-Policy",
    "Location",
    "Referrer-Policy",
    "X-Content-Type-Options",
)
"""Headers of its answers that are for the browser."""

Authorization = Callable[[str | None], Awaitable[str]]
"""The header to send; given one that was rejected, another one if there is any."""


class Proxy:
    """Sends on what a browser asks for, with somebody's authorization.

    It is for that person alone, and others may be on this machine: only who has opened the address with the
    key gets an answer. The browser keeps the key in a cookie that no page of anybody else can have it send.
    """

    def __init__(self, manager: URL, authorization: Authorization, tls: ssl.SSLContext | None = None) -> None:
        """`manager` is where the console is, and `tls` is for connections to it."""
        self._manager = manager.origin()
        self._authorization = authorization
        self._tls = tls
        self._session: ClientSession | None = None
        self._key = secrets.token_urlsafe(24)

    def address(self, own: str) -> str:
        """What to open in a browser, where this is served at `own`."""
        return f"http://{own}/?{_KEY}={self._key}"

    def pages(self) -> Mapping[str, Page]:
        """By path, for GET and for POST alike."""
        return {ANY_PATH: self._page}

    async def aclose(self) -> None:
        """Leave no connection behind."""
        if self._session is not None:
            await self._session.close()

    async def _page(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import ClientError, web  # noqa: PLC0415 - see manager.http.server

        host = request.headers.get("Host", "")
        named = split_address(host)
        if named is None or not is_loopback(named[0]):
            return _refusal(_MISDIRECTED, "not a name of this machine")
        cookie = f"console-{named[1]}"  # cookies are for a machine, whatever the port
        if self._is_key(request.query.get(_KEY, "")):
            welcome = web.Response(status=_SEE_OTHER, headers={"Location": "/", "Cache-Control": "no-store"})
            welcome.set_cookie(cookie, self._key, httponly=True, samesite="Strict", path="/")
            return welcome
        if not self._is_key(request.cookies.get(cookie, "")):
            return _refusal(_FORBIDDEN, "open the address that the command has printed")
        if request.method == "POST" and request.headers.get("Origin") != f"http://{host}":
            return _refusal(_FORBIDDEN, "not from a page of this console")
        try:
            return await self._sent_on(request)
        except ConfigError as error:
            return _refusal(_BAD_GATEWAY, str(error))
        except (ClientError, TimeoutError) as error:
            return _refusal(_BAD_GATEWAY, f"the manager at {self._manager} does not answer: {error}")

    def _is_key(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self._key.encode())

    async def _sent_on(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import web  # noqa: PLC0415 - as above

        rejected: str | None = None
        path = request.rel_url.raw_path_qs
        while True:
            header = await self._authorization(rejected)
            async with self._opened().request(
                request.method,
                URL(f"{self._manager}{path}", encoded=True),
                headers={"Authorization": header, "Origin": f"{self._manager}"},
                allow_redirects=False,
            ) as answer:
                if answer.status == _UNAUTHORIZED and rejected is None:
                    rejected = header
                    continue
                told = {name: answer.headers[name] for name in _TOLD if name in answer.headers}
                response = web.StreamResponse(status=answer.status, headers=told)
                await response.prepare(request)
                async for piece in answer.content.iter_any():
                    await response.write(piece)
                return response

    def _opened(self) -> ClientSession:
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector  # noqa: PLC0415 - as above

        if self._session is None:
            self._session = ClientSession(
                connector=TCPConnector(ssl=self._tls or True, limit=0),
                timeout=ClientTimeout(total=None, sock_connect=_PATIENCE, sock_read=_SILENCE),
                cookie_jar=DummyCookieJar(),
            )
        return self._session


def _refusal(status: int, text: str) -> web.StreamResponse:
    from aiohttp import web  # noqa: PLC0415 - see manager.http.server

    return web.Response(status=status, text=f"{text}\n", headers={"X-Content-Type-Options": "nosniff"})
