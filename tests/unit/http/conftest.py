from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Protocol

import aiohttp
import pytest

from manager.address import BindAddress
from manager.http.routes import Page
from manager.http.server import serve

Headers = Mapping[str, str] | Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def content_type(self) -> str:
        return self.headers.get("Content-Type", "")


class Site:
    """Some pages being served, as a client sees them."""

    def __init__(self, session: aiohttp.ClientSession, address: BindAddress) -> None:
        self.address = address
        self._session = session

    async def get(self, path: str, *, method: str = "GET", headers: Headers = ()) -> Answer:
        url = f"http://{self.address}{path}"
        async with self._session.request(method, url, headers=headers) as response:
            return Answer(response.status, response.headers, await response.text())


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
