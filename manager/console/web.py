"""Requests and answers of the console: the one place that knows the HTTP server's types."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aiohttp.typedefs import Handler as Page
from aiohttp.web import Request, Response, StreamResponse

from manager.server.access import Access, Place
from manager.server.server import guarded, path_itself, who_asks
from manager.util.address import is_loopback, split_address
from manager.util.program import Program

__all__ = ["Page", "Request", "Response", "StreamResponse", "path_itself", "who_asks"]

Asks = Callable[[Request], tuple[str, str | Place]]
"""Returns the verb, and the object or the path, that a user needs the right to."""

_FORBIDDEN, _MISDIRECTED = 403, 421

_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
_POLICY = {
    **_HEADERS,
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",  # with less, no Origin would come with a form
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def audience_of(program: Program) -> str:
    """Return the audience of tokens that are valid for the program's console alone."""
    return f"{program.name}-console"


def plain(text: str, status: int = 200, content_type: str = "text/plain") -> Response:
    """Answer with a text, which is plain by default."""
    return answer(status, {"Content-Type": f"{content_type}; charset=utf-8"}, text.encode())


def html(text: str, status: int = 200) -> Response:
    """Answer with a page that loads and runs nothing from elsewhere."""
    return answer(status, {**_POLICY, "Content-Type": "text/html; charset=utf-8"}, text.encode())


def file(body: bytes, content_type: str) -> Response:
    """Answer with a file that browsers may keep for a day: its address has a version."""
    kept = {"Cache-Control": "public, max-age=86400", "Content-Type": f"{content_type}; charset=utf-8"}
    return answer(200, {**_POLICY, **kept}, body)


def answer(status: int, headers: Mapping[str, str], body: bytes = b"") -> Response:
    """Answer with these additional headers."""
    return Response(status=status, headers={**_HEADERS, **headers}, body=body)


def allowed_only(page: Page, access: Access | None, asks: Asks | None) -> Page:
    """Return the page, for users with the right that it asks for alone; None is no right at all.

    Without `access`, the page is for all users of this machine. The request's Host has to be a name of this
    machine then: a web page in a browser here could read it otherwise, by a name that leads here.
    """
    if access is not None:
        return page if asks is None else guarded(page, access, asks)

    async def show(request: Request) -> StreamResponse:
        host = request.headers.get("Host", "")
        named = split_address(host) or split_address(f"{host}:0")
        if named is None or not is_loopback(named[0]):
            return plain("not a name of this machine\n", _MISDIRECTED)
        return await page(request)

    return show


def from_own_page(page: Page) -> Page:
    """Return the page, for requests from the console's own pages alone: a browser sends their Origin."""

    async def act(request: Request) -> StreamResponse:
        _, _, origin = request.headers.get("Origin", "").partition("://")
        if not origin or origin != request.headers.get("Host"):
            return plain("not from a page of this console\n", _FORBIDDEN)
        return await page(request)

    return act
