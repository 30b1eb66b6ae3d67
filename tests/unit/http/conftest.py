from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Protocol

import aiohttp
import pytest

from manager.address import BindAddress
from manager.http.server import Page, serve


@dataclass(frozen=True)
class Answer:
    status: int
    content_type: str
    text: str


class Site:
    """Some pages being served, as a client sees them."""

    def __init__(self, session: aiohttp.ClientSession, address: BindAddress) -> None:
        self.address = address
        self._session = session

    async def get(self, path: str, *, method: str = "GET", accept: str | None = None) -> Answer:
        headers = {} if accept is None else {"Accept": accept}
        url = f"http://{self.address}{path}"
        async with self._session.request(method, url, headers=headers) as response:
            return Answer(response.status, response.headers.get("Content-Type", ""), await response.text())


class ServePages(Protocol):
    async def __call__(self, pages: Mapping[str, Page], posts: Mapping[str, Page] = ...) -> Site: ...


@pytest.fixture
async def serve_pages() -> AsyncIterator[ServePages]:
    async with AsyncExitStack() as stack:

        async def start(pages: Mapping[str, Page], posts: Mapping[str, Page] | None = None) -> Site:
            address = await stack.enter_async_context(
                serve("pages", BindAddress("127.0.0.1", 0), pages, posts=posts)
            )
            session = await stack.enter_async_context(aiohttp.ClientSession())
            return Site(session, address)

        yield start
