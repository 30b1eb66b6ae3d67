"""The pool of the process's caches."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple, Unpack

from manager.api import GroupVersionKind, ObjectKey, Resource
from manager.cache.informer import Informer, ObjectFilter
from manager.cache.record import FieldManagers, Parts, Record, RecordDecoder
from manager.cache.reflector import Upstream
from manager.cache.spec import WHOLE, Selection, SelectionOptions, WatchSpec
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics


class Cache:
    """A pool of informers, one per kind, projection and selection, shared among all callers.

    `field_manager` is the name of our field manager, or the common prefix of several; the cache keeps only
    their managedFields. `namespaces` are watched, with one watch for each kind and namespace; none (the
    default), or "" among them, means all namespaces, with one watch for each kind.

    Attributes:
        managers: the field managers whose managedFields are kept.
        make_filter: creates the filter for an informer that is requested as `filtered`; its argument says
            whether the informer's objects are children. If it is None, no informer has a filter.
    """

    def __init__(
        self,
        transport: Transport,
        mapper: RestMapper,
        *,
        field_manager: str,
        namespaces: Sequence[str] = (),
        metrics: Metrics,
        rng: random.Random,
    ) -> None:
        self._upstream = Upstream(transport, mapper, metrics, rng)
        self.managers = FieldManagers(field_manager)
        self.make_filter: Callable[[bool], ObjectFilter] | None = None
        self._namespaces = tuple(namespaces)
        self._metrics = metrics
        self._shared: dict[_Name, Informer] = {}
        # Results of `lookup`, kept until the informers change, because every read calls it.
        self._looked_up: dict[tuple[GroupVersionKind, bool, Selection, bool], Informer] = {}
        # The informers that receive a write of a kind.
        self._of_kind: dict[GroupVersionKind, tuple[Informer, ...]] = {}
        self._watches: asyncio.TaskGroup | None = None

    def informer(
        self,
        kind: type[Resource],
        *,
        metadata_only: bool = False,
        filtered: bool = False,
        owned_by: type[Resource] | None = None,
        **selection: Unpack[SelectionOptions],
    ) -> Informer:
        """Return the shared informer of a kind, which the first call creates; call `release` after use.

        The informer starts when the cache runs. Each selection has an informer with its own watches and
        memory. With `filtered`, the informer has only objects that the cache's filter accepts.

        With `owned_by`, the caller needs only children of objects of that kind. With `filtered`, the informer
        then drops all other objects. Otherwise, it reduces them to their metadata, unless it has a selection.
        If another caller needs all objects, the informer keeps them. A caller that needs all objects after
        the start of the cache gets a separate informer.

        Raises ValueError for an invalid label selector or path. Raises RuntimeError for a call without
        `filtered` if the informer already runs with a filter for children.
        """
        selected = Selection.of(**selection)
        filtered = filtered and self.make_filter is not None
        children = owned_by is not None and not metadata_only and selected == WHOLE
        name = _Name(kind.gvk, metadata_only, selected, filtered and owned_by is None, children)
        other = name._replace(children=not children)
        if children and other in self._shared:
            name = other
        if name not in self._shared:
            self._looked_up.clear()
            if other in self._shared and self._watches is None:
                self._shared[other].keep_whole()
                self._shared[name] = self._shared.pop(other)
            else:
                made = self.make_filter(owned_by is not None) if filtered and self.make_filter else None
                self._shared[name] = self._add(kind, name, made)
                self._start(self._shared[name])
        informer = self._shared[name]
        if informer.holds_children and not filtered:
            if self._watches is not None:
                raise RuntimeError(
                    f"the informer of {informer.spec.resource} already runs, and has only children"
                )
            informer.drop_filter()
        if owned_by is not None:
            informer.add_owner(owned_by.gvk)
        informer.users += 1
        return informer

    def release(self, informer: Informer) -> None:
        """Give back an informer; the release by its last caller ends its watches and frees its memory."""
        informer.users -= 1
        if informer.users:
            return
        self._shared = {name: each for name, each in self._shared.items() if each is not informer}
        self._looked_up.clear()
        spec = informer.spec
        self._of_kind[spec.gvk] = tuple(each for each in self._of_kind[spec.gvk] if each is not informer)
        if not any(each.spec.projection == spec.projection for each in self._of_kind[spec.gvk]):
            for gauge in (self._metrics.cache_objects, self._metrics.cache_bytes):
                gauge.remove(spec.resource, spec.projection)
        if informer.task is not None:
            informer.task.cancel()

    def separate(self, kind: type[Resource], **selection: Unpack[SelectionOptions]) -> Informer:
        """Return an unshared informer for a few objects and a short time; the caller runs it.

        Our own writes reach this informer only through its watch. Raises ValueError for an invalid label
        selector.
        """
        return self._make(kind, _Name(kind.gvk, False, Selection.of(**selection), False))

    def lookup(
        self,
        kind: type[Resource],
        *,
        metadata_only: bool = False,
        selection: Selection = WHOLE,
        ours: bool = False,
    ) -> Informer | None:
        """Return the existing informer of a kind for reading; None if no caller has requested one.

        If informers with and without a filter exist, `ours` chooses the filtered informer.
        """
        asked = (kind.gvk, metadata_only, selection, ours)
        known = self._looked_up.get(asked)
        if known is not None:
            return known
        for restricted in (ours, not ours):
            # An informer of all objects may have been added to one of children, and not be synced yet.
            for children in (True, False):
                found = self._shared.get(_Name(kind.gvk, metadata_only, selection, restricted, children))
                if found is not None:
                    self._looked_up[asked] = found
                    return found
        return None

    def held(self, kind: type[Resource], key: ObjectKey) -> Record | None:
        """Return the record of a whole object from any informer that has it, with or without a selection.

        None does not mean that the server lacks the object.
        """
        for informer in self._informers(kind):
            record = informer.get(key)
            if record is not None and informer.spec.projection == "full" and not record.is_cut:
                return record
        return None

    def has(self, kind: type[Resource], key: ObjectKey) -> bool:
        """Return whether an informer has the object or its metadata, so that a deletion causes an event."""
        return any(each.get(key) is not None for each in self._informers(kind))

    def holds_all(self, kind: type[Resource], namespace: str) -> bool:
        """Return whether an informer, once synced, has every object (or its metadata) of a namespace."""
        return any(each.selects_all_of(namespace) for each in self._informers(kind))

    async def run(self) -> None:
        """Run every informer, including later ones, until cancelled."""
        if self._watches is not None:
            raise RuntimeError("the cache is already running")
        try:
            async with asyncio.TaskGroup() as self._watches:
                self._start(*self._shared.values())
                await asyncio.get_running_loop().create_future()
        finally:
            self._watches = None

    async def wait_synced(self) -> None:
        """Wait until every existing informer without a filter has synced."""
        for informer in self.informers:
            await informer.wait_synced()

    def problems(self) -> list[str]:
        """Return texts for people about informers that cannot watch the server; empty if all can."""
        return [problem for informer in self.informers if (problem := informer.problem) is not None]

    def observe_write(self, kind: type[Resource], raw: bytes, *, before: int | None = None) -> Record | None:
        """Update the cache with the server's answer to a write, so that later reads see the write.

        See `Informer.observe_write`.
        """
        found: Record | None = None
        for informer in self._of_kind.get(kind.gvk, ()):
            found = informer.observe_write(raw, before=before) or found
        return found

    def observe_delete(self, kind: type[Resource], key: ObjectKey, uid: str | None, raw: bytes) -> None:
        """Update the cache with the server's answer to a delete; see `Informer.observe_delete`."""
        for informer in self._informers(kind):
            informer.observe_delete(key, uid, raw)

    @property
    def informers(self) -> tuple[Informer, ...]:
        """Return all shared informers."""
        return tuple(self._shared.values())

    def _informers(self, kind: type[Resource]) -> tuple[Informer, ...]:
        return self._of_kind.get(kind.gvk, ())

    def _add(self, kind: type[Resource], name: _Name, object_filter: ObjectFilter | None) -> Informer:
        informer = self._make(kind, name, object_filter)
        self._of_kind[kind.gvk] = (*self._informers(kind), informer)
        spec = informer.spec
        numbers = ((self._metrics.cache_objects, len), (self._metrics.cache_bytes, attrgetter("size")))
        for gauge, number in numbers:
            count = partial(self._total, kind, spec.projection, number)
            gauge.labels(spec.resource, spec.projection).set_function(count)
        return informer

    def _total(self, kind: type[Resource], projection: str, number: Callable[[Informer], int]) -> int:
        informers = (each for each in self._informers(kind) if each.spec.projection == projection)
        return sum(map(number, informers))

    def _make(self, kind: type[Resource], name: _Name, object_filter: ObjectFilter | None = None) -> Informer:
        metadata_only, selection = name.metadata_only, name.selection
        decoder = RecordDecoder(
            kind.gvk,
            field_manager=self.managers,
            metadata_only=metadata_only,
            owners=set() if name.children else None,
            parts=Parts(selection.keeps) if selection.keeps else None,
        )
        spec = WatchSpec.of(
            kind, namespaces=self._namespaces, metadata_only=metadata_only, selection=selection
        )
        return Informer(spec, decoder, self._upstream, object_filter=object_filter)

    def _start(self, *informers: Informer) -> None:
        if self._watches is None:
            return
        for informer in informers:
            name = f"cache {informer.spec.resource} {informer.spec.projection}"
            informer.task = self._watches.create_task(informer.run(), name=name)


class _Name(NamedTuple):
    """The key of a shared informer: callers with an equal key share one informer."""

    gvk: GroupVersionKind
    metadata_only: bool
    selection: Selection
    filtered: bool
    children: bool = False
