"""Handler of watches, which streams changes of a resource as lines of JSON."""

from __future__ import annotations

import asyncio
import functools
import random
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import orjson

from devcluster.api import conversion, tables
from devcluster.api.interfaces import Call
from devcluster.api.negotiation import Representation
from devcluster.api.options import ListOptions
from devcluster.api.reading import Reader, Selection, future_version, matching, parse_version
from devcluster.clock import Clock
from devcluster.errors import StatusError, expired
from devcluster.http_call import ApiResponse
from devcluster.storage.records import Change, Expired, Overflow, Stored
from devcluster.storage.store import Store, Watch

Object = dict[str, Any]
T = TypeVar("T")

BOOKMARK_INTERVAL: Final = 60.0
"""Seconds between bookmarks."""
_LAST_BOOKMARK: Final = 2.0
"""Seconds between the last bookmark of a watch and its end."""
_CHUNK: Final = 256 << 10
"""The bytes of initial events per chunk."""
_INITIAL_END: Final = {"k8s.io/initial-events-end": "true"}
_CACHED_LINES: Final = 4096
_RETRIES: Final = (0.1, 5.0)
"""Seconds between attempts to convert objects: the first and the longest delay."""
_PATIENCE: Final = 3.0
"""Seconds for which the conversion of a watch's initial objects is retried."""


class Watcher:
    """A factory of watches, which share encoded lines.

    A watch without its own timeout lasts one to two times `minimum_timeout` seconds.
    """

    def __init__(
        self, store: Store, reader: Reader, *, clock: Clock, rng: random.Random, minimum_timeout: float
    ) -> None:
        self._store = store
        self._reader = reader
        self._clock = clock
        self._rng = rng
        self.minimum_timeout = minimum_timeout
        self._lines: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()

    def watch(self, call: Call, options: ListOptions, representation: Representation) -> ApiResponse:
        """Answer a watch; raise StatusError for an invalid request, before the stream begins."""
        if representation.transform == "Table":
            tables.check_include(call.request.option("includeObject"))
        selection = Selection.of(call.resource, options, name=call.name)
        version = parse_version(options.version, bare=True) if options.version else 0
        timeout = float(options.timeout or 0) or self.minimum_timeout * (1 + self._rng.random())
        stream = _Stream(self, call, options, representation, selection)
        return ApiResponse(stream=stream.run(version, timeout))

    async def line(
        self,
        call: Call,
        event: str,
        stored: Stored,
        representation: Representation,
        include: str,
        *,
        head: bool,
    ) -> bytes:
        """Return the line of an event; `head` adds a table's columns."""
        resource = call.resource
        shared = not head
        # `converted` identifies the kind as of its last change, such as a new schema.
        identity = (event, stored.version, stored.key, resource.converted, representation, include)
        if shared and (known := self._lines.get(identity)) is not None:
            return known
        (data,) = await conversion.data_of(resource, [stored])
        if representation.transform == "Table":
            obj = orjson.loads(data)
            columns = tables.column_definitions(resource) if head else None
            row = tables.table_row(resource, obj, include, representation, self._clock)
            metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            data = orjson.dumps(tables.table(columns, [row], metadata, representation))
        elif representation.transform:
            data = tables.partial_metadata(data, representation)
        line = b'{"type":"%b","object":%b}\n' % (event.encode(), data)
        if shared and representation.transform != "Table":  # the ages in tables change with time
            self._lines[identity] = line
            if len(self._lines) > _CACHED_LINES:
                self._lines.popitem(last=False)
        return line


class _Stream:
    """The stream of one watch."""

    def __init__(
        self,
        watcher: Watcher,
        call: Call,
        options: ListOptions,
        representation: Representation,
        selection: Selection,
    ) -> None:
        self._watcher = watcher
        self._store = watcher._store  # noqa: SLF001 -- the class belongs to Watcher
        self._call = call
        self._options = options
        self._representation = representation
        self._selection = selection
        self._include = call.request.option("includeObject")
        self._head = representation.transform == "Table"
        self._not_before = 0
        self._seen = 0

    def run(self, version: int, timeout: float) -> AsyncIterator[bytes]:
        """Start the watch in this call, and return the stream of its lines."""
        initial: Sequence[Stored] | None = None
        try:
            if self._options.initial_events or (version == 0 and self._options.initial_events is None):
                initial = self._store.select(*self._call.resource.stored, self._namespace)
                watch = self._open(None)
                self._seen = self._store.version
            elif version == 0 or version >= self._store.version:
                watch = self._open(None)
                self._seen = self._not_before = version or self._store.version
            else:
                watch = self._open(version)
                self._seen = version
        except Expired as error:
            return _one(_error(expired(f"too old resource version: {error.asked} ({error.oldest})")))
        return _Lines(self._lines(watch, initial, timeout), watch)

    async def _patiently(self, step: Callable[[], Awaitable[T]], end: float) -> T:
        """Return the result of `step`; repeat `step` after a StatusError until `end` (event loop's clock)."""
        loop = asyncio.get_running_loop()
        pause, longest = _RETRIES
        while True:
            try:
                return await step()
            except StatusError:
                if loop.time() + pause >= end:
                    raise
                await asyncio.sleep(pause)
                pause = min(pause * 2, longest)

    async def _lines(
        self, watch: Watch, initial: Sequence[Stored] | None, timeout: float
    ) -> AsyncGenerator[bytes]:
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        try:
            if initial is not None:
                await self._store.settled(self._seen)
                try:
                    async for chunk in self._initial_lines(initial, min(end, loop.time() + _PATIENCE)):
                        yield chunk
                except StatusError as error:
                    yield _error(error)
                    return
            bookmark = self._next_bookmark(loop.time(), end)
            while (now := loop.time()) < end:
                try:
                    changes = await watch.next(min(bookmark, end) - now)
                except Overflow:
                    return
                if changes:
                    await self._store.settled(changes[-1].version)
                    try:  # no event is skipped: while a webhook is down, later events wait too
                        if chunk := await self._patiently(functools.partial(self._lines_of, changes), end):
                            yield chunk
                    except StatusError:
                        return
                elif watch.closed:
                    return
                if loop.time() >= bookmark:
                    bookmark = self._next_bookmark(loop.time(), end)
                    if self._options.bookmarks and self._store.version >= self._not_before:
                        self._seen = max(self._seen, self._store.version if not changes else 0)
                        await self._store.settled(self._seen)
                        yield self._bookmark({})
        finally:
            watch.close()

    async def _lines_of(self, changes: Sequence[Change]) -> bytes:
        """Return the watch lines of changes; all objects are converted together first."""
        if self._call.resource.convert is not None:
            shown = [each for change in changes for each in (change.old, change.new, change.final)]
            await conversion.data_of(self._call.resource, [each for each in shown if each is not None])
        return b"".join([line for change in changes for line in await self._events(change)])

    async def _initial_lines(self, initial: Sequence[Stored], end: float) -> AsyncGenerator[bytes]:
        """Yield the lines of the selected objects; raise StatusError if they cannot be converted in time."""
        resource, selection = self._call.resource, self._selection
        if not selection.converts:
            initial, _ = await matching(initial, selection)
        try:
            await self._patiently(functools.partial(conversion.data_of, resource, initial), end)
        except StatusError:
            # Answer like a server whose watch cache has not yet received the unconverted objects.
            unknown = [each.version for each in initial if conversion.known(resource, each) is None]
            raise future_version(self._seen, min(unknown) - 1) from None
        if selection.converts:
            initial, _ = await matching(initial, selection)
        size, lines = 0, []
        for stored in initial:
            line = await self._line("ADDED", stored)
            lines.append(line)
            size += len(line)
            if size > _CHUNK:
                yield b"".join(lines)
                size, lines = 0, []
        if self._options.initial_events and self._options.bookmarks:
            lines.append(self._bookmark(_INITIAL_END))
        if lines:
            yield b"".join(lines)

    async def _events(self, change: Change) -> list[bytes]:
        """Return the watch lines of one change: an object that stops matching the selection gives DELETED."""
        if change.version <= self._not_before:
            return []
        self._seen = change.version
        before = change.old is not None and self._selection.matches(change.old)
        if change.new is None:
            assert change.final is not None
            return [await self._line("DELETED", change.final)] if before else []
        after = self._selection.matches(change.new)
        if after:
            return [await self._line("MODIFIED" if before else "ADDED", change.new)]
        if not before:
            return []
        assert change.old is not None
        left = Stored.of(change.key, change.version, change.old.decode())
        return [await self._line("DELETED", left)]

    async def _line(self, event: str, stored: Stored) -> bytes:
        line = await self._watcher.line(
            self._call, event, stored, self._representation, self._include, head=self._head
        )
        self._head = False
        return line

    def _open(self, since: int | None) -> Watch:
        return self._store.watch(*self._call.resource.stored, self._namespace, since=since)

    @property
    def _namespace(self) -> str:
        if not self._call.resource.namespaced:
            return ""
        return self._call.namespace or self._selection.namespace

    def _bookmark(self, annotations: dict[str, str]) -> bytes:
        resource, representation = self._call.resource, self._representation
        metadata: Object = {"resourceVersion": str(self._seen)}
        if annotations:
            metadata["annotations"] = annotations
        obj: Object = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        if representation.transform == "PartialObjectMetadata":
            obj.update(kind="PartialObjectMetadata", apiVersion=representation.api_version)
        elif representation.transform == "Table":
            columns = tables.column_definitions(resource) if self._head else None
            self._head = False
            # The end of the initial events is marked in the metadata, so the metadata is sent even if not
            # requested.
            include = self._include if self._include == "Object" or not annotations else "Metadata"
            row = tables.table_row(resource, obj, include, representation, self._watcher._clock)  # noqa: SLF001
            obj = tables.table(columns, [row], {"resourceVersion": str(self._seen)}, representation)
        return b'{"type":"BOOKMARK","object":%b}\n' % orjson.dumps(obj)

    @staticmethod
    def _next_bookmark(now: float, end: float) -> float:
        last = end - _LAST_BOOKMARK
        following = now + BOOKMARK_INTERVAL
        return last if now < last < following else following


class _Lines(AsyncIterator[bytes]):
    """Iterator over the lines of a watch; closing it also closes the watch, even before the first line."""

    def __init__(self, lines: AsyncGenerator[bytes], watch: Watch) -> None:
        self._lines = lines
        self._watch = watch

    def __anext__(self) -> Awaitable[bytes]:
        return self._lines.__anext__()

    async def aclose(self) -> None:
        self._watch.close()
        await self._lines.aclose()


async def _one(line: bytes) -> AsyncIterator[bytes]:
    yield line


def _error(error: StatusError) -> bytes:
    return b'{"type":"ERROR","object":%b}\n' % orjson.dumps(error.to_status())
