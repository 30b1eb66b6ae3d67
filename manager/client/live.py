"""Reads from the API server without the caches, and lists that stay current."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Generic, Self, TypeVar

import msgspec

from manager.api import ObjectKey, Resource
from manager.cache import Informer
from manager.client.errors import Undecodable
from manager.client.reader import Labels, ObjectList, decode_at_once, decode_object, decode_records
from manager.kube.decoding import Decoder
from manager.kube.errors import Gone, NotFound
from manager.kube.listing import Listing
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.loop import Portions

R = TypeVar("R", bound=Resource)

# Objects per page, as the reflectors use: large enough to be few, small enough to bound memory.
PAGE = 500


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Named(msgspec.Struct):
    metadata: _Meta


_decode_named = Decoder(_Named, "an object")


class LiveReader:
    """Each call is a request. Reconcilers normally read from the cache."""

    def __init__(self, transport: Transport, mapper: RestMapper) -> None:
        self._transport = transport
        self._mapper = mapper

    async def get(self, kind: type[R], key: ObjectKey) -> R:
        """Return the object as the server has it now; raises NotFound, other ApiErrors, and Undecodable."""
        return await decode_object(await self.read(kind, key), kind, key)

    async def read(self, kind: type[Resource], key: ObjectKey) -> bytes:
        """As `get`, but the object's JSON."""
        mapping = await self._mapper.resolve(kind.gvk)
        return await self._transport.request("GET", mapping.path(key.namespace, key.name))

    async def find(self, kind: type[R], key: ObjectKey) -> R | None:
        """As `get`, but None if there is no such object."""
        try:
            return await self.get(kind, key)
        except NotFound:
            return None

    async def list(
        self,
        kind: type[R],
        *,
        namespace: str = "",
        labels: Labels = None,
        field_selector: str | None = None,
    ) -> ObjectList[R]:
        """Return all objects that match, read in `pages`; `namespace=""` means all namespaces.

        `labels` are a map of labels that must be equal, or a selector as kubectl takes it.

        Objects that do not fit the model are reported separately (see `ObjectList`).
        """
        found: list[R] = []
        undecodable: list[Undecodable] = []
        async for page in self.pages(kind, namespace=namespace, labels=labels, field_selector=field_selector):
            found += page
            undecodable += page.undecodable
        return ObjectList(found, undecodable)

    async def pages(
        self,
        kind: type[R],
        *,
        namespace: str = "",
        labels: Labels = None,
        field_selector: str | None = None,
        limit: int = PAGE,
    ) -> AsyncIterator[ObjectList[R]]:
        """All objects that match, so many at a time, for what is too much to be held at once.

            async for pods in client.uncached.pages(Pod, limit=100): ...

        The server shows all pages as of the first one, for some minutes. A reader slower than that goes on in
        what there is by then: an object that was there all along comes once, one that came or went meanwhile
        perhaps. Raises Gone where the server cannot do that, and ValueError for a limit below 1.
        """
        async for page in self.raw_pages(
            kind,
            namespace=namespace,
            labels=labels,
            field_selector=field_selector,
            limit=limit,
        ):
            yield await _decoded(page, kind)

    async def raw_pages(
        self,
        kind: type[Resource],
        *,
        namespace: str = "",
        labels: Labels = None,
        field_selector: str | None = None,
        limit: int = PAGE,
    ) -> AsyncIterator[Sequence[msgspec.Raw]]:
        """As `pages`, but the JSON of each object."""
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        mapping = await self._mapper.resolve(kind.gvk)
        listing = Listing(self._transport.request, mapping.path(namespace))
        query, resume = _query(limit, labels, field_selector), ""
        while True:
            try:
                page = await listing.page(query, resume)
            except Gone as error:
                if error.resume in ("", resume):
                    raise
                resume = error.resume
                continue
            yield page.items
            if not page.resume:
                return
            resume = page.resume

    async def probe(
        self,
        kind: type[Resource],
        *,
        namespace: str = "",
        labels: Labels = None,
        field_selector: str | None = None,
    ) -> None:
        """Ask for one such object, to find out whether a list is possible at all; raises why it is not."""
        mapping = await self._mapper.resolve(kind.gvk)
        query = _query(1, labels, field_selector)
        await self._transport.request("GET", mapping.path(namespace), query=query)


async def _decoded(items: Iterable[msgspec.Raw], kind: type[R]) -> ObjectList[R]:
    found: list[R] = []
    undecodable: list[Undecodable] = []
    portions = Portions()
    for raw in items:
        await portions.begin(len(memoryview(raw)))
        named = _decode_named(raw).metadata
        try:
            found.append(decode_at_once(bytes(raw), kind, ObjectKey(named.namespace, named.name)))
        except Undecodable as error:
            undecodable.append(error)
    return ObjectList(found, undecodable)


def _query(limit: int, labels: Labels, field_selector: str | None) -> dict[str, str]:
    query = {"limit": str(limit)}
    if labels:
        query["labelSelector"] = (
            labels if isinstance(labels, str) else ",".join(map("=".join, labels.items()))
        )
    if field_selector:
        query["fieldSelector"] = field_selector
    return query


class LiveList(Generic[R]):
    """An async iterator: each step is the list of all matching objects, ordered by key.

    The first step comes once all of them are known, and a further one when something has changed. Changes in
    quick succession come as one step, so a slow reader is at most one step behind. An object that is no
    longer in the list is gone.
    """

    def __init__(self, informer: Informer, kind: type[R]) -> None:
        self._informer = informer
        self._kind = kind
        self._news = asyncio.Event()
        self._failure: BaseException | None = None

    @property
    def problem(self) -> str | None:
        """Why the list may be incomplete or out of date, for people; None if it is not."""
        return self._informer.problem

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ObjectList[R]:
        """The objects as they are now; those that are not of the kind's shape are named apart."""
        await self._news.wait()
        if self._failure is not None:
            raise self._failure
        self._news.clear()
        return await decode_records(self._informer, self._informer.list(), self._kind)

    async def _run(self) -> None:
        """Follow the server until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer.run(), name=f"watch {self._kind.plural}")
            await self._informer.wait_synced()
            # From here on: what came before belongs to the first list.
            self._informer.subscribe(lambda _: self._news.set(), replay=False)
            self._news.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Tell the reader, who would wait for ever."""
        if not task.cancelled():
            self._failure = task.exception()
            self._news.set()


@asynccontextmanager
async def followed(informer: Informer, kind: type[R]) -> AsyncIterator[LiveList[R]]:
    """Run the informer for the length of the context."""
    live = LiveList(informer, kind)
    running = asyncio.create_task(live._run(), name=f"follow {kind.plural}")  # noqa: SLF001 - of this module
    running.add_done_callback(live._ended)  # noqa: SLF001 - the same
    try:
        yield live
    finally:
        running.cancel()
        await asyncio.wait([running])
