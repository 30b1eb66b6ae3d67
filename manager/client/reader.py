"""Reads from the shared caches, without a request, and from the API server; and lists that stay current."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Generic, Self, TypeAlias, TypedDict, TypeVar, Unpack

import msgspec
from pydantic import ValidationError

from manager.api import ObjectKey, PartialObjectMetadata, Resource
from manager.cache import Cache, Informer, ObjectFilter, Record, Selection, SelectionOptions, metadata_of
from manager.cache.record import RecordDecoder
from manager.cache.spec import WHOLE, Selector
from manager.cache.store import Store
from manager.client.errors import NotCached, Undecodable
from manager.kube.decoding import Decoder, Listing, json_object, shallow_at_once
from manager.kube.errors import Gone, NotFound
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.util.loop import Portions, own_turn

R = TypeVar("R", bound=Resource)

Labels: TypeAlias = dict[str, str] | str | None
"""A map of labels that must be equal, or a selector in kubectl's notation."""


class ListOptions(TypedDict, total=False):
    """The filters of a list; a listed object matches all of them."""

    namespace: str | None
    """None or "" means all watched namespaces; an unwatched namespace raises NotCached."""
    labels: Labels
    """A map of labels that must be equal, or a selector in kubectl's notation."""
    owner: Resource | None
    """Select by owner reference; required with `--shards` for kinds that are cached only as own children."""
    index: tuple[str, str] | None
    """Name and value of an index that the informer has."""
    deleting: bool | None
    """True selects only objects that are being deleted, False only the other objects."""


class LiveOptions(TypedDict, total=False):
    """The filters of a list from the API server; a listed object matches all of them."""

    namespace: str
    """The default "" means all namespaces."""
    labels: Labels
    """A map of labels that must be equal, or a selector in kubectl's notation."""
    field_selector: str | None


class _Reader:
    """The base class of all readers; it finds the informer for each read."""

    _metadata_only = False

    def __init__(
        self, cache: Cache, *, live: LiveReader, selection: Selection = WHOLE, ours: bool = False
    ) -> None:
        """Create a reader; with `ours`, it reads only objects that this replica owns.

        If the cache has only children of a kind, `live` reads the other objects.
        """
        self._cache = cache
        self._selection = selection
        self._ours = ours
        self._live = live

    def _informer(self, kind: type[Resource], namespace: str | None) -> Informer:
        """Return the informer for a kind in one or all watched namespaces; raises NotCached."""
        informer = self._cache.lookup(
            kind, metadata_only=self._metadata_only, selection=self._selection, ours=self._ours
        )
        if informer is None:
            part = f" with {self._selection}" if self._selection != WHOLE else ""
            mend = "declare it in owns, watches or reads of the operator, and read it with the same selection"
            raise self._not_cached(kind, part, mend)
        if namespace and not informer.covers(namespace):
            mend = f"only {', '.join(informer.spec.namespaces)} is watched; watch it too"
            raise self._not_cached(kind, f" in namespace {namespace}", mend)
        return informer

    def _not_cached(self, kind: type[Resource], part: str, mend: str) -> NotCached:
        return NotCached(f"{'the metadata of ' if self._metadata_only else ''}{kind.gvk.kind}{part}", mend)

    def _expect_all(
        self, kind: type[Resource], informer: Informer, held: ObjectFilter, owner: Resource | None = None
    ) -> None:
        """Raise NotCached if the cache has only a part of the requested objects."""
        if not self._ours and not (owner is not None and held.holds_children_of(owner.metadata.uid)):
            way = "list the children of one object, " if informer.holds_children else ""
            mend = f"{way}declare reads = ({kind.gvk.kind},) in the operator"
            raise self._not_cached(kind, " of other replicas (--shards)", mend)

    async def _get(self, kind: type[Resource], key: ObjectKey) -> bytes | None:
        informer = self._informer(kind, key.namespace)
        record = informer.get(key)
        if record is not None and (self._metadata_only or not record.is_cut):
            return record.raw
        if record is not None or informer.holds_children:
            try:
                raw = await self._live.read(kind, key)
            except NotFound:
                return None
            return metadata_of(raw, kind.gvk) if self._metadata_only else raw
        if informer.filter is not None:
            self._expect_all(kind, informer, informer.filter)
        return None

    async def _select(self, kind: type[Resource], options: ListOptions) -> tuple[Informer, list[Record]]:
        owner, namespace, labels = options.get("owner"), options.get("namespace"), options.get("labels")
        informer = self._informer(kind, namespace)
        if informer.filter is not None:
            self._expect_all(kind, informer, informer.filter, owner)
        rest = Selector()
        if isinstance(labels, str):
            labels, rest = Selector.parse(labels).split()
        owner_uid = None if owner is None else owner.metadata.uid
        await informer.prepare(labels=labels, owner_uid=owner_uid)
        index, deleting = options.get("index"), options.get("deleting")
        records = informer.list(namespace=namespace, labels=labels, owner_uid=owner_uid, index=index)
        if deleting is not None or rest.requirements:
            records = await _matching(records, deleting, rest)
        if not self._metadata_only and (cut := {record.key for record in records if record.is_cut}):
            server = await self._read_cut(kind, cut, namespace, options.get("labels"))
            read = server.select(namespace=namespace, labels=labels, owner_uid=owner_uid)
            records = [record for record in records if record.key not in cut]
            records += await _matching(read, deleting, rest)
            records.sort(key=lambda record: record.key)
        return informer, records

    async def _read_cut(
        self, kind: type[Resource], keys: set[ObjectKey], namespace: str | None, labels: Labels
    ) -> Store:
        """Read the objects with these keys from the API server; the result lacks objects that are gone."""
        decoder, found, portions = RecordDecoder(kind.gvk, field_manager=""), Store(), Portions()
        async for page in self._live.raw_pages(kind, namespace=namespace or "", labels=labels):
            for raw in page:
                await portions.begin(len(memoryview(raw)))
                arrival = decoder.look(raw)
                if arrival.key in keys:
                    found.put(*decoder.take(arrival))
        return found


async def _matching(records: list[Record], deleting: bool | None, labels: Selector) -> list[Record]:
    """Return the records that meet the conditions for which there is no index."""
    if deleting is not None:
        records = [record for record in records if record.deleting is deleting]
    if not labels.requirements:
        return records
    matching, portions = [], Portions()
    for record in records:
        await portions.begin(len(record.raw))
        if labels.matches(record.meta().labels):
            matching.append(record)
    return matching


class ObjectList(list[R]):
    """A list of objects, without those that do not fit their model.

    A single such object must not hide all others. Use `complete()` in code that creates missing objects or
    deletes surplus ones.

    Attributes: `undecodable` has an error for each omitted object.
    """

    def __init__(self) -> None:
        super().__init__()
        self.undecodable: list[Undecodable] = []

    def complete(self) -> Self:
        """Return the list itself; raises Undecodable if an object was omitted."""
        if self.undecodable:
            raise self.undecodable[0]
        return self

    def decode(self, raw: bytes, kind: type[R], key: ObjectKey) -> Undecodable | None:
        """Add an object, or omit it and return the reason."""
        try:
            self.append(decode_at_once(raw, kind, key))
        except Undecodable as error:
            self.undecodable.append(error)
            return error
        return None


async def decode_object(
    raw: bytes, kind: type[R], key: ObjectKey, *, parsed: dict[str, Any] | None = None
) -> R:
    """Decode a new copy (see `Resource.decode`); raises Undecodable if it does not fit the kind.

    Raises ProtocolError for invalid JSON. Large objects are decoded one per iteration of the event loop.
    """
    await own_turn(len(raw))
    return decode_at_once(raw, kind, key, parsed=parsed)


def decode_at_once(raw: bytes, kind: type[R], key: ObjectKey, *, parsed: dict[str, Any] | None = None) -> R:
    """Decode an object like `decode_object`, but synchronously; for a caller that has awaited `own_turn`."""
    try:
        return kind.decode(raw, parsed=parsed)
    except ValidationError as error:
        if error.errors(include_url=False, include_input=False)[0]["type"] != "json_invalid":
            raise Undecodable(kind.gvk, key, error) from error
    # Or the JSON is nested too deeply.
    raw = shallow_at_once(raw)
    return decode_at_once(raw, kind, key, parsed=json_object(raw, f"a {kind.gvk.kind}"))


async def decode_records(informer: Informer, records: Iterable[Record], kind: type[R]) -> ObjectList[R]:
    """Decode new copies; the informer counts objects that do not fit the kind."""
    objects, portions = ObjectList[R](), Portions()
    for record in records:
        await portions.begin(len(record.raw))
        if (error := objects.decode(record.raw, kind, record.key)) is not None:
            informer.left_out(record, error)
    return objects


class CachedReader(_Reader):
    """A reader of objects with the kind's model. The caller owns the results and may change them."""

    def selecting(self, **selection: Unpack[SelectionOptions]) -> CachedReader:
        """Return a reader of the objects that are cached with this selection.

            reads = (Reads(Pod, selection=Selection.of(label_selector="app=web")),)  # declared so
            ...
            web = client.selecting(label_selector="app=web")
            await web.list(Pod)

        Reads without a selection raise NotCached for a kind that is cached only with a selection.
        """
        return self.within(Selection.of(**selection))

    def within(self, selection: Selection, *, ours: bool = False) -> CachedReader:
        """Return a reader for a checked selection; with `ours`, of objects that this replica owns."""
        return CachedReader(self._cache, live=self._live, selection=selection, ours=ours)

    async def find(self, kind: type[R], key: ObjectKey) -> R | None:
        """Return the object, or None if the cache lacks it; raises Undecodable.

        If operators declare the kind only in `owns`, objects with other owners are read from the API server:
        the cache has only their metadata, or nothing with `--shards`.
        """
        raw = await self._get(kind, key)
        return None if raw is None else await decode_object(raw, kind, key)

    async def get(self, kind: type[R], key: ObjectKey) -> R:
        """Return the object; raises NotFound if the cache lacks it."""
        found = await self.find(kind, key)
        if found is None:
            raise NotFound(404, "NotFound", f'{kind.plural} "{key.name}" not found in the cache')
        return found

    async def list(self, kind: type[R], **options: Unpack[ListOptions]) -> ObjectList[R]:
        """Return the objects that meet all given conditions, ordered by key.

        A list by an index costs time for the results only, not for the whole cache. An object that does not
        fit the model is omitted, counted and logged (see `ObjectList`).

        If operators declare the kind only in `owns`, objects with other owners are listed from the API
        server. An operator that lists them should declare `reads`.
        """
        return await decode_records(*await self._select(kind, options), kind)

    async def records(self, kind: type[Resource], **options: Unpack[ListOptions]) -> Sequence[Record]:
        """Return the records that meet all given conditions, ordered by key, without decoding them."""
        return (await self._select(kind, options))[1]


class MetadataReader(_Reader):
    """A reader of metadata, for kinds that are watched with `metadata_only=True`."""

    _metadata_only = True

    def selecting(self, **selection: Unpack[SelectionOptions]) -> MetadataReader:
        """Return a reader of metadata that is cached with this selection; see `CachedReader.selecting`."""
        return self.within(Selection.of(**selection))

    def within(self, selection: Selection) -> MetadataReader:
        """Return a reader for a checked selection."""
        return MetadataReader(self._cache, live=self._live, selection=selection)

    async def find(self, kind: type[Resource], key: ObjectKey) -> PartialObjectMetadata | None:
        """Return the object's metadata, or None if the cache lacks it."""
        raw = await self._get(kind, key)
        return None if raw is None else await decode_object(raw, PartialObjectMetadata, key)

    async def keys(self, kind: type[Resource], **options: Unpack[ListOptions]) -> list[ObjectKey]:
        """Return the keys of the objects that meet all given conditions, without decoding them."""
        return [record.key for record in (await self._select(kind, options))[1]]

    async def list(
        self, kind: type[Resource], **options: Unpack[ListOptions]
    ) -> ObjectList[PartialObjectMetadata]:
        """Return the metadata of the objects that meet all given conditions (see `CachedReader.list`)."""
        return await decode_records(*await self._select(kind, options), PartialObjectMetadata)


# Objects per page, as in reflectors: large enough for few requests, small enough to limit memory.
PAGE = 500


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Named(msgspec.Struct):
    metadata: _Meta


_decode_named = Decoder(_Named, "an object")


class LiveReader:
    """A reader that sends a request for each call. Reconcilers normally read from the cache."""

    def __init__(self, transport: Transport, mapper: RestMapper) -> None:
        self._transport = transport
        self._mapper = mapper

    async def get(self, kind: type[R], key: ObjectKey) -> R:
        """Return the object as the server now has it; raises NotFound, other ApiErrors, and Undecodable."""
        return await decode_object(await self.read(kind, key), kind, key)

    async def read(self, kind: type[Resource], key: ObjectKey) -> bytes:
        """Return the object's JSON; raises NotFound and other ApiErrors."""
        mapping = await self._mapper.resolve(kind.gvk)
        return await self._transport.request("GET", mapping.path(key.namespace, key.name))

    async def find(self, kind: type[R], key: ObjectKey) -> R | None:
        """Return the object, or None if there is none; otherwise raises the same errors as `get`."""
        try:
            return await self.get(kind, key)
        except NotFound:
            return None

    async def list(self, kind: type[R], **options: Unpack[LiveOptions]) -> ObjectList[R]:
        """Return all matching objects, read in `pages`.

        Objects that do not fit the model are reported separately (see `ObjectList`).
        """
        found = ObjectList[R]()
        async for page in self.pages(kind, **options):
            found += page
            found.undecodable += page.undecodable
        return found

    async def pages(
        self, kind: type[R], *, limit: int = PAGE, **options: Unpack[LiveOptions]
    ) -> AsyncIterator[ObjectList[R]]:
        """Yield all matching objects in pages of `limit`, for lists that do not fit into memory.

            async for pods in client.uncached.pages(Pod, limit=100): ...

        For some minutes, the server returns all pages from the time of the first page. A slower reader
        continues with the objects of a later time: each object that existed all the time is returned once; an
        object that was created or deleted meanwhile may be missing. Raises Gone if the server cannot
        continue, and ValueError for a limit below 1.
        """
        portions = Portions()
        async for page in self.raw_pages(kind, limit=limit, **options):
            objects = ObjectList[R]()
            for raw in page:
                await portions.begin(len(memoryview(raw)))
                named = _decode_named(raw).metadata
                objects.decode(bytes(raw), kind, ObjectKey(named.namespace, named.name))
            yield objects

    async def raw_pages(
        self, kind: type[Resource], *, limit: int = PAGE, **options: Unpack[LiveOptions]
    ) -> AsyncIterator[Sequence[msgspec.Raw]]:
        """Yield pages with the JSON of each object; see `pages`."""
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        mapping = await self._mapper.resolve(kind.gvk)
        listing = Listing(self._transport.request, mapping.path(options.get("namespace", "")))
        query, resume = _query(limit, options), ""
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

    async def probe(self, kind: type[Resource], **options: Unpack[LiveOptions]) -> None:
        """Request a list of one object to check whether a list is possible; raise the error if it is not."""
        mapping = await self._mapper.resolve(kind.gvk)
        path = mapping.path(options.get("namespace", ""))
        await self._transport.request("GET", path, query=_query(1, options))


def _query(limit: int, options: LiveOptions) -> dict[str, str]:
    query = {"limit": str(limit)}
    if labels := options.get("labels"):
        query["labelSelector"] = (
            labels if isinstance(labels, str) else ",".join(map("=".join, labels.items()))
        )
    if field_selector := options.get("field_selector"):
        query["fieldSelector"] = field_selector
    return query


class LiveList(Generic[R]):
    """An async iterator: each step is the list of all matching objects, ordered by key.

    The first step is returned when all objects are known, and another one after each change. Changes in quick
    succession are combined into one step, so a slow reader is at most one step behind. An object that is
    missing in the list and in its `undecodable` is gone.
    """

    def __init__(self, informer: Informer, kind: type[R]) -> None:
        self._informer = informer
        self._kind = kind
        self._news = asyncio.Event()
        self._running: asyncio.Task[None]

    @property
    def problem(self) -> str | None:
        """Return the reason why the list may be incomplete or out of date; None if it is current."""
        return self._informer.problem

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ObjectList[R]:
        """Wait for a change and return the current objects; `undecodable` has the omitted ones."""
        await self._news.wait()
        if self._running.done() and not self._running.cancelled():
            self._running.result()
        self._news.clear()
        return await decode_records(self._informer, self._informer.list(), self._kind)

    async def __aenter__(self) -> Self:
        """Run the informer until the context ends; a failure of the informer wakes the reader."""
        self._running = asyncio.create_task(self._run(), name=f"watch {self._kind.plural}")
        self._running.add_done_callback(lambda _: self._news.set())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer.run(), name=f"watch {self._kind.plural}")
            await self._informer.wait_synced()
            # Only now: earlier events belong to the first list.
            self._informer.subscribe(lambda _: self._news.set(), replay=False)
            self._news.set()
