"""All caches of the process."""

from __future__ import annotations

import asyncio
import random

from manager.api import GroupVersionKind, ObjectKey, Resource
from manager.cache.informer import Informer
from manager.cache.ingest import Ingest
from manager.cache.spec import CacheOptions, KindOptions, WatchSpec
from manager.cache.statistics import CacheStatistics
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.metrics import Metrics

__all__ = ["Cache"]


class Cache:
    """Shares one informer per kind and projection among all who ask for it.

    `field_manager` is the name, or the beginning of the names, that our writes are booked under on the
    server; only the managedFields of these are kept.
    """

    def __init__(
        self,
        transport: Transport,
        mapper: RestMapper,
        *,
        field_manager: str,
        options: CacheOptions | None = None,
        metrics: Metrics,
        rng: random.Random,
    ) -> None:
        self._transport = transport
        self._mapper = mapper
        self._field_manager = field_manager
        self._options = options or CacheOptions()
        self._metrics = metrics
        self._rng = rng
        self._shared: dict[tuple[GroupVersionKind, bool], _Shared] = {}
        self._watches: asyncio.TaskGroup | None = None

    def informer(self, kind: type[Resource], *, metadata_only: bool = False) -> Informer:
        """Return the informer of a kind, making it when it is first asked for; give it back by `release`.

        It starts at once when the cache runs, else when it does. Raises ValueError when the options for the
        kind hold a bad label selector.
        """
        shared = self._shared.get((kind.gvk, metadata_only))
        if shared is None:
            shared = _Shared(self._make(kind, metadata_only=metadata_only))
            self._shared[kind.gvk, metadata_only] = shared
            self._start(shared)
        shared.users += 1
        return shared.informer

    def release(self, informer: Informer) -> None:
        """Give an informer back; the last one to do so ends its watches and frees its memory."""
        name = (informer.spec.gvk, informer.spec.metadata_only)
        shared = self._shared[name]
        shared.users -= 1
        if shared.users:
            return
        del self._shared[name]
        for gauge in (self._metrics.cache_objects, self._metrics.cache_bytes):
            gauge.remove(informer.spec.resource, informer.spec.projection)
        if shared.task is not None:
            shared.task.cancel()

    def separate(
        self, kind: type[Resource], *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Informer:
        """Return an informer of the caller's own, who runs it: nobody else reads it, no write shows in it.

        For a few objects that matter for a while; what lasts is shared. `namespace=""` means all. Raises
        ValueError for a bad label selector.
        """
        options = KindOptions(label_selector=label_selector, field_selector=field_selector)
        namespaces = (namespace,) if namespace else ()
        return self._informer(kind, CacheOptions(namespaces=namespaces, by_kind={kind: options}))

    def lookup(self, kind: type[Resource], *, metadata_only: bool = False) -> Informer | None:
        """Return the informer of a kind if somebody asked for it, for reading."""
        shared = self._shared.get((kind.gvk, metadata_only))
        return None if shared is None else shared.informer

    async def run(self) -> None:
        """Run every informer, also those asked for later, until cancelled."""
        if self._watches is not None:
            raise RuntimeError("the cache runs already")
        try:
            async with asyncio.TaskGroup() as self._watches:
                self._start(*self._shared.values())
                await asyncio.get_running_loop().create_future()
        finally:
            self._watches = None

    async def wait_synced(self) -> None:
        """Return once every informer that there is now has synced."""
        for shared in list(self._shared.values()):
            await shared.informer.wait_synced()

    def problems(self) -> list[str]:
        """What keeps informers from following the server, for people; empty when all is well."""
        informers = (shared.informer for shared in self._shared.values())
        return [problem for informer in informers if (problem := informer.problem) is not None]

    def observe_write(self, kind: type[Resource], raw: bytes, *, before: int | None = None) -> None:
        """Take in the server's answer to a write, so that from now on reads are no older than it.

        `before` is the version that the write replaced, 0 for a create; None when that is not known for sure.
        Raises ProtocolError when it is not an object of this kind.
        """
        for informer in self._informers(kind):
            informer.observe_write(raw, before=before)

    def observe_delete(self, kind: type[Resource], key: ObjectKey, uid: str | None, raw: bytes) -> None:
        """Take in the server's answer to a delete of the object with that key and, where known, UID.

        Raises ProtocolError when it is neither a Status nor an object of this kind.
        """
        for informer in self._informers(kind):
            informer.observe_delete(key, uid, raw)

    def statistics(self) -> CacheStatistics:
        """How all informers stand."""
        return CacheStatistics(tuple(shared.informer.statistics() for shared in self._shared.values()))

    def _informers(self, kind: type[Resource]) -> list[Informer]:
        both = (self._shared.get((kind.gvk, metadata_only)) for metadata_only in (False, True))
        return [shared.informer for shared in both if shared is not None]

    def _make(self, kind: type[Resource], *, metadata_only: bool) -> Informer:
        informer = self._informer(kind, self._options, metadata_only=metadata_only)
        labels = (informer.spec.resource, informer.spec.projection)
        self._metrics.cache_objects.labels(*labels).set_function(lambda: len(informer))
        self._metrics.cache_bytes.labels(*labels).set_function(lambda: informer.statistics().bytes)
        return informer

    def _informer(
        self, kind: type[Resource], options: CacheOptions, *, metadata_only: bool = False
    ) -> Informer:
        ingest = Ingest(
            kind.gvk,
            field_manager=self._field_manager,
            metadata_only=metadata_only,
            transform=options.of(kind).transform,
        )
        return Informer(
            WatchSpec.of(kind, options, metadata_only=metadata_only),
            ingest,
            transport=self._transport,
            mapper=self._mapper,
            restarts=self._metrics.watch_restarts,
            failures=self._metrics.cache_failures,
            rng=self._rng,
        )

    def _start(self, *informers: _Shared) -> None:
        if self._watches is None:
            return
        for shared in informers:
            name = f"cache {shared.informer.spec.resource} {shared.informer.spec.projection}"
            shared.task = self._watches.create_task(shared.informer.run(), name=name)


class _Shared:
    """An informer, how many use it, and the task that runs it."""

    __slots__ = ("informer", "task", "users")

    def __init__(self, informer: Informer) -> None:
        self.informer = informer
        self.users = 0
        self.task: asyncio.Task[None] | None = None
