"""A proxy on this machine that adds a token to the browser's requests to a cluster's console."""

from __future__ import annotations

import hmac
import secrets
import ssl
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web
from aiohttp.typedefs import Handler
from yarl import URL

from manager.kube.errors import ConfigError

ANY_PATH = "/{path:.*}"

_SEE_OTHER, _UNAUTHORIZED, _FORBIDDEN, _MISDIRECTED, _BAD_GATEWAY = 303, 401, 403, 421, 502
_PATIENCE = 5.0
"""Time limit for a connection to the manager, in seconds."""

_SILENCE = 90.0
"""Idle time limit, in seconds: a stream ends before that."""

_KEY = "key"
"""The query that tells the key, in the address that is printed."""

_COOKIE = "console"
_OPEN = "open the address that the command has printed; it works once, in one browser"

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
"""Headers of answers that are passed on to the browser."""

Authorization = Callable[[str | None], Awaitable[str]]
"""The header to send; given one that was rejected, another one if there is any."""


class Proxy:
    """Sends on what a browser asks for, with somebody's authorization.

    It is for that person alone, and others may be on this machine: only the browser that is the first to open
    the address with the key gets an answer. It is known by a cookie then. Browsers send a cookie to all ports
    of a host, so the host has a name that nobody can guess: they take what ends in `.localhost` for loopback.
    """

    def __init__(
        self,
        manager: URL,
        authorization: Authorization,
        tls: ssl.SSLContext | None = None,
        *,
        named: str | None = None,
    ) -> None:
        """`manager` is where the console is, `tls` is for connections to it, and `named` who it has to be."""
        self._manager = manager.origin()
        self._authorization = authorization
        self._tls = tls
        self._named = named
        self._session: ClientSession | None = None
        self._key: str | None = secrets.token_urlsafe(24)
        self._cookie = secrets.token_urlsafe(24)
        self._host = ""

    def address(self, own: str) -> str:
        """What to open in a browser, where this is served at `own`: it can be opened once."""
        self._host = f"{secrets.token_hex(16)}.localhost:{own.rpartition(':')[2]}"
        return f"http://{self._host}/?{_KEY}={self._key}"

    def pages(self) -> Mapping[str, Handler]:
        """By path, for GET and for POST alike."""
        return {ANY_PATH: self._page}

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def _page(self, request: web.Request) -> web.StreamResponse:
        if not _same(request.headers.get("Host", ""), self._host):
            return _refusal(_MISDIRECTED, _OPEN)
        if self._key is not None and _same(request.query.get(_KEY, ""), self._key):
            self._key = None
            cookie = f"{_COOKIE}={self._cookie}; HttpOnly; Path=/; SameSite=Strict"
            headers = {"Location": "/", "Cache-Control": "no-store", "Set-Cookie": cookie}
            return web.Response(status=_SEE_OTHER, headers=headers)
        if not any(_same(each, f"{_COOKIE}={self._cookie}") for each in _cookies(request)):
            return _refusal(_FORBIDDEN, _OPEN)
        if request.method == "POST" and request.headers.get("Origin") != f"http://{self._host}":
            return _refusal(_FORBIDDEN, "not from a page of this console")
        try:
            return await self._sent_on(request)
        except ConfigError as error:
            return _refusal(_BAD_GATEWAY, str(error))
        except (ClientError, TimeoutError) as error:
            return _refusal(_BAD_GATEWAY, f"the manager at {self._manager} does not answer: {error}")

    async def _sent_on(self, request: web.Request) -> web.StreamResponse:
        rejected: str | None = None
        while True:
            header = await self._authorization(rejected)
            async with self._opened().request(
                request.method,
                URL(f"{self._manager}{request.rel_url.raw_path_qs}", encoded=True),
                headers={"Authorization": header, "Origin": f"{self._manager}"},
                allow_redirects=False,
                server_hostname=self._named,
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
        if self._session is None:
            self._session = ClientSession(
                connector=TCPConnector(ssl=self._tls or True, limit=0),
                timeout=ClientTimeout(total=None, sock_connect=_PATIENCE, sock_read=_SILENCE),
                cookie_jar=DummyCookieJar(),
            )
        return self._session


def _cookies(request: web.Request) -> list[str]:
    return [each.strip() for header in request.headers.getall("Cookie", ()) for each in header.split(";")]


def _same(text: str, secret: str) -> bool:
    return hmac.compare_digest(text.encode(errors="surrogateescape"), secret.encode())


def _refusal(status: int, text: str) -> web.StreamResponse:
    return web.Response(status=status, text=f"{text}\n", headers={"X-Content-Type-Options": "nosniff"})
