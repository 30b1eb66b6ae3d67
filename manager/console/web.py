"""Requests and answers of the console: the one place that knows the HTTP server's types."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from manager.access.access import Access
from manager.access.reviews import Place
from manager.address import is_loopback, split_address
from manager.http.guard import guarded, path_itself, who_asks
from manager.http.request import Request
from manager.http.response import Response
from manager.http.routes import Page

__all__ = ["Page", "Request", "Response", "path_itself", "who_asks"]

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


def plain(text: str, status: int = 200, content_type: str = "") -> Response:
    """Answer with a text, which is plain by default."""
    return Response(status=status, text=text, content_type=content_type, headers=_HEADERS)


def html(text: str, status: int = 200) -> Response:
    """Answer with a page that loads and runs nothing from elsewhere."""
    return Response(status=status, text=text, content_type="text/html; charset=utf-8", headers=_POLICY)


def file(body: bytes, content_type: str) -> Response:
    """Answer with a file that browsers may keep for a day: its address has a version."""
    headers = {**_POLICY, "Cache-Control": "public, max-age=86400"}
    return Response(body=body, content_type=f"{content_type}; charset=utf-8", headers=headers)


def answer(status: int, headers: Mapping[str, str], body: bytes = b"") -> Response:
    """Answer with these headers beside the usual ones."""
    return Response(status=status, headers={**_HEADERS, **headers}, body=body)


def target_of(request: Request) -> str:
    """Return the path and query of a request as they came."""
    return request.target


def allowed_only(page: Page, access: Access | None, asks: Asks | None) -> Page:
    """Return the page, for users with the right that it asks for alone; None is no right at all.

    Without `access`, the page is for all users of this machine. The request's Host has to be a name of this
    machine then: a web page in a browser here could read it otherwise, by a name that leads here.
    """
    if access is not None:
        return page if asks is None else guarded(page, access, asks)

    async def show(request: Request) -> Response:
        host = request.headers.get("Host", "")
        named = split_address(host) or split_address(f"{host}:0")
        if named is None or not is_loopback(named[0]):
            return plain("not a name of this machine\n", _MISDIRECTED)
        return await page(request)

    return show


def from_own_page(page: Page) -> Page:
    """Return the page, for requests from the console's own pages alone: a browser sends their Origin."""

    async def act(request: Request) -> Response:
        _, _, origin = request.headers.get("Origin", "").partition("://")
        if not origin or origin != request.headers.get("Host"):
            return plain("not from a page of this console\n", _FORBIDDEN)
        return await page(request)

    return act
