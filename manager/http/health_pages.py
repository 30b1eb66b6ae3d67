"""`/healthz` and `/readyz`, with a path for each check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from manager.http.server import Page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import web

    from manager.health import Checks, Health

__all__ = ["health_pages"]

_OK, _NOT_FOUND, _FAILED = 200, 404, 500

_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, private"}


def health_pages(health: Health) -> Mapping[str, Page]:
    """Pages by path.

    `/readyz` says `ok`, or with status 500 every check; `?verbose` says every check in any case,
    and `?exclude=NAME` (any number) leaves some out. `/readyz/NAME` is one check alone.
    """
    pages: dict[str, Page] = {}
    for checks in (health.liveness, health.readiness):
        path = f"/{checks.title}"
        pages[path] = pages[f"{path}/"] = _all(checks)
        pages[f"{path}/{{check}}"] = _one(checks)
    return pages


def _all(checks: Checks) -> Page:
    async def show(request: web.Request) -> web.Response:
        report = checks.report(excluded=request.query.getall("exclude", ()))
        brief = report.healthy and "verbose" not in request.query
        return _answer(_OK if report.healthy else _FAILED, "ok" if brief else report.text)

    return show


def _one(checks: Checks) -> Page:
    async def show(request: web.Request) -> web.Response:
        name = request.match_info["check"]
        if name not in checks.names:
            return _answer(_NOT_FOUND, f"{checks.title} has no check named {name}\n")
        problem = checks.problem(name)
        if problem is not None:
            return _answer(_FAILED, f"{problem}\n")
        return _answer(_OK, f"[+]{name} ok\n" if "verbose" in request.query else "ok")

    return show


def _answer(status: int, text: str) -> web.Response:
    from aiohttp import web  # noqa: PLC0415 - see manager.http.server

    return web.Response(status=status, text=text, headers=_HEADERS)
