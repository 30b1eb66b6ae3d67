"""Lists of objects, page by page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from manager.kube.decoding import Decoder
from manager.kube.errors import ProtocolError
from manager.kube.transport import LONGEST_LIST
from manager.util.loop import own_turn

_EMPTY_PAGES = 1_000
"""Pages of a list in a row that may have no object."""


class Page(NamedTuple):
    """Page of a list: undecoded objects at one resource version.

    `resume` is the continue token of the next page, "" on the last one. `remaining` is the number of objects
    after it, None if the server does not tell. `size` is the number of bytes of the response.
    """

    items: list[msgspec.Raw]
    version: str
    resume: str
    remaining: int | None
    size: int


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    resume: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _List(msgspec.Struct):
    metadata: _Metadata
    items: list[msgspec.Raw] | None = None


decode_list = Decoder(_List, "a list", around=2)
"""Reads one page; raises `ProtocolError`."""


class Listing:
    """A list that is read by pages, which a server could give without end."""

    def __init__(
        self,
        request: Callable[..., Awaitable[bytes]],
        path: str,
        *,
        longest: int = LONGEST_LIST,
        **options: Any,
    ) -> None:
        """`request` is a transport's, or one like it; `longest` and `options` are those of each request."""
        self._request = partial(request, "GET", path, longest=longest, **options)
        self._path = path
        self._empty = 0

    async def page(self, query: Mapping[str, str], resume: str = "") -> Page:
        """Request the page at the continue token `resume`, "" for the first page.

        Raises what the request raises, and `ProtocolError` for an invalid page or for lack of progress. Pages
        may be empty, also several in a row, when filters leave out all their objects.
        """
        raw = await self._request(query={**query, "continue": resume} if resume else query)
        await own_turn(len(raw))
        try:
            found = await decode_list.large(raw)
            self._turned(resume, found)
        except ProtocolError as error:
            raise ProtocolError(f"GET {self._path}: {error}") from None
        metadata = found.metadata
        return Page(
            found.items or [],
            metadata.resource_version,
            metadata.resume,
            metadata.remaining_item_count,
            len(raw),
        )

    def _turned(self, resume: str, found: _List) -> None:
        self._empty = 0 if found.items else self._empty + 1
        if found.metadata.resume and found.metadata.resume == resume:
            raise ProtocolError("not a list: a page of it links to itself")
        if found.metadata.resume and self._empty > _EMPTY_PAGES:
            raise ProtocolError(f"not a list: {self._empty} pages of it in a row are empty")
