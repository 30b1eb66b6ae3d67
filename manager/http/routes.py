"""Which page a request is for."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from urllib.parse import unquote

from manager.http.request import Request
from manager.http.response import Response

Page = Callable[[Request], Awaitable[Response]]
"""Answers a request."""

_VARIABLE = re.compile(r"\{(\w+)(?::(.+?))?\}")


class Routes:
    """Pages by path and method."""

    def __init__(self, pages: Mapping[str, Page], posts: Mapping[str, Page]) -> None:
        """`pages` answer to GET and HEAD, `posts` to POST; `{name}` or `{name:.*}` in a path is variable."""
        self._routes = [
            *((_pattern(path), ("GET", "HEAD"), page) for path, page in pages.items()),
            *((_pattern(path), ("POST",), page) for path, page in posts.items()),
        ]

    async def answer(self, request: Request) -> Response:
        """What the page of a request says, with the variable parts of its path in `match_info`."""
        allowed, path = set[str](), request.raw_path
        for pattern, methods, page in self._routes:
            if (found := pattern.fullmatch(path)) is None:
                continue
            if request.method in methods:
                request.match_info = {name: unquote(value) for name, value in found.groupdict().items()}
                return await page(request)
            allowed.update(methods)
        if allowed:
            headers = {"Allow": ",".join(sorted(allowed))}
            return Response(
                status=HTTPStatus.METHOD_NOT_ALLOWED, text="method not allowed\n", headers=headers
            )
        return Response(status=HTTPStatus.NOT_FOUND, text="not found\n")


def _pattern(path: str) -> re.Pattern[str]:
    parts, start = [], 0
    for variable in _VARIABLE.finditer(path):
        name, values = variable.groups()
        parts += [re.escape(path[start : variable.start()]), f"(?P<{name}>{values or '[^/]+'})"]
        start = variable.end()
    return re.compile("".join([*parts, re.escape(path[start:])]))
