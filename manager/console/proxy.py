"""A proxy on this machine that adds a token to the browser's requests to a cluster's console."""

from __future__ import annotations

import hmac
import secrets
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from yarl import URL

from manager.console.web import Page, Request, Response, answer, plain, target_of
from manager.kube.errors import ConfigError

if TYPE_CHECKING:
    from aiohttp import ClientSession

ANY_PATH = "/{path:.*}"

_SEE_OTHER, _UNAUTHORIZED, _FORBIDDEN, _MISDIRECTED, _BAD_GATEWAY = 303, 401, 403, 421, 502
_PATIENCE = 5.0
"""Time limit for a connection to the manager, in seconds."""

_SILENCE = 90.0
"""Time limit for its answer, in seconds."""

_KEY = "key"
"""The query that tells the key, in the address that is printed."""

_COOKIE = "console"
_OPEN = "open the address that the command has printed; it works once, in one browser\n"

_PASSED_ON = (
    "Cache-Control",
    "Content-Security-Policy",
    "Content-Type",
    "Cross-Origin-Opener-Policy",
    "Cross-Origin-Resource-Policy",
    "Location",
    "Referrer-Policy",
    "X-Content-Type-Options",
)
"""Headers of answers that the browser gets."""

Authorization = Callable[[str | None], Awaitable[str]]
"""The header to send; given one that was rejected, another one if there is any."""


class Proxy:
    """A proxy that sends a browser's requests to the console, with a user's authorization.

    The first browser that opens the address with the key gets a cookie, and no other one gets an answer: more
    people may use this machine. Browsers send a cookie to all ports of a host, so the host has a name that
    cannot be guessed: they take any name that ends in `.localhost` for loopback.
    """

    def __init__(
        self,
        manager: URL,
        authorization: Authorization,
        tls: ssl.SSLContext | None = None,
        *,
        named: str | None = None,
    ) -> None:
        """Take the console's address, and as `named` the name that its certificate must have."""
        self._manager = manager.origin()
        self._authorization = authorization
        self._tls = tls
        self._named = named
        self._session: ClientSession | None = None
        self._key: str | None = secrets.token_urlsafe(24)
        self._cookie = secrets.token_urlsafe(24)
        self._host = ""

    def address(self, own: str) -> str:
        """Return the address that one browser can open once, where the proxy is served at `own`."""
        self._host = f"{secrets.token_hex(16)}.localhost:{own.rpartition(':')[2]}"
        return f"http://{self._host}/?{_KEY}={self._key}"

    def pages(self) -> Mapping[str, Page]:
        """Return the one page, for GET and for POST alike."""
        return {ANY_PATH: self._page}

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def _page(self, request: Request) -> Response:
        from aiohttp import ClientError  # noqa: PLC0415 - only the command `console` is a client of it

        if not _same(request.headers.get("Host", ""), self._host):
            return plain(_OPEN, _MISDIRECTED)
        if self._key is not None and _same(request.query.get(_KEY, ""), self._key):
            self._key = None
            cookie = f"{_COOKIE}={self._cookie}; HttpOnly; Path=/; SameSite=Strict"
            return answer(_SEE_OTHER, {"Location": "/", "Set-Cookie": cookie})
        if not any(_same(each, f"{_COOKIE}={self._cookie}") for each in _cookies(request)):
            return plain(_OPEN, _FORBIDDEN)
        if request.method == "POST" and request.headers.get("Origin") != f"http://{self._host}":
            return plain("not from a page of this console\n", _FORBIDDEN)
        try:
            return await self._sent_on(request)
        except ConfigError as error:
            return plain(f"{error}\n", _BAD_GATEWAY)
        except (ClientError, TimeoutError) as error:
            return plain(f"the manager at {self._manager} does not answer: {error}\n", _BAD_GATEWAY)

    async def _sent_on(self, request: Request) -> Response:
        rejected: str | None = None
        while True:
            header = await self._authorization(rejected)
            async with self._opened().request(
                request.method,
                URL(f"{self._manager}{target_of(request)}", encoded=True),
                headers={"Authorization": header, "Origin": f"{self._manager}"},
                allow_redirects=False,
                server_hostname=self._named,
            ) as received:
                if received.status == _UNAUTHORIZED and rejected is None:
                    rejected = header
                    continue
                headers = {name: received.headers[name] for name in _PASSED_ON if name in received.headers}
                return answer(received.status, headers, await received.read())

    def _opened(self) -> ClientSession:
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector  # noqa: PLC0415 - as above

        if self._session is None:
            self._session = ClientSession(
                connector=TCPConnector(ssl=self._tls or True, limit=0),
                timeout=ClientTimeout(total=None, sock_connect=_PATIENCE, sock_read=_SILENCE),
                cookie_jar=DummyCookieJar(),
            )
        return self._session


def _cookies(request: Request) -> list[str]:
    return [each.strip() for header in request.headers.getall("Cookie", ()) for each in header.split(";")]


def _same(text: str, secret: str) -> bool:
    return hmac.compare_digest(text.encode(errors="surrogateescape"), secret.encode())
