from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import starmap
from typing import Any, Protocol

import aiohttp
import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from manager.server.server import Routes, serve
from manager.util.address import BindAddress

Headers = Mapping[str, str] | Sequence[tuple[str, str]]
Pages = Mapping[str, Handler]


@contextmanager
def occupied_threads() -> Iterator[None]:
    """Occupy all threads of `asyncio.to_thread` within the block, as slow reconcilers do."""
    ended, threads = threading.Event(), ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(threads)
    threads.submit(ended.wait)
    try:
        yield
    finally:
        ended.set()


def routes_of(pages: Pages, posts: Pages | None = None) -> Routes:
    """Return GET routes for `pages` and POST routes for `posts`; both map paths to handlers."""
    return [*starmap(web.get, pages.items()), *starmap(web.post, (posts or {}).items())]


@asynccontextmanager
async def serving(
    name: str,
    address: BindAddress,
    pages: Pages | Routes | None = None,
    *,
    posts: Pages | None = None,
    **options: Any,
) -> AsyncIterator[BindAddress]:
    """Serve pages, which are a map from paths to GET handlers or a list of routes; yield the address."""
    routes = routes_of(pages or {}, posts) if pages is None or isinstance(pages, Mapping) else pages
    async with serve(name, address, routes, **options) as server:
        yield server.address


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def content_type(self) -> str:
        return self.headers.get("Content-Type", "")


class Site:
    """HTTP client of served pages."""

    def __init__(self, session: aiohttp.ClientSession, address: BindAddress) -> None:
        self.address = address
        self._session = session

    async def get(self, path: str, *, method: str = "GET", headers: Headers = (), **options: Any) -> Answer:
        url = f"http://{self.address}{path}"
        async with self._session.request(method, url, headers=headers, **options) as response:
            return Answer(response.status, response.headers, await response.text())


class ServePages(Protocol):
    async def __call__(self, pages: Pages | Routes, posts: Pages = ...) -> Site: ...


@pytest.fixture
async def serve_pages() -> AsyncIterator[ServePages]:
    async with AsyncExitStack() as stack:

        async def start(pages: Pages | Routes, posts: Pages | None = None) -> Site:
            address = await stack.enter_async_context(
                serving("pages", BindAddress("127.0.0.1", 0), pages, posts=posts)
            )
            session = await stack.enter_async_context(aiohttp.ClientSession())
            return Site(session, address)

        yield start
