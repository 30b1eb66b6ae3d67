"""The client that reconcilers use: reads from the cache, writes to the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeVar

import orjson

from manager.api import GroupVersionKind, PartialObjectMetadata, Resource, Unstructured
from manager.cache import Cache, metadata_of
from manager.client.applier import Applied, Applier
from manager.client.live import LiveList, LiveReader, followed
from manager.client.reader import CachedReader, MetadataReader, decode_object
from manager.client.subresource import StatusClient, SubresourceClient
from manager.client.write import JSON, MERGE_PATCH, Writer, booked, merge_diff, whole_object
from manager.kube.errors import Conflict, Invalid, NotFound
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport

R = TypeVar("R", bound=Resource)

Propagation = Literal["Background", "Foreground", "Orphan"]

# Lists that a merge patch replaces whole: a change by somebody else in between would be lost.
SHARED_LISTS = frozenset({"finalizers", "ownerReferences"})


class Client(CachedReader):
    """Reads are cached and cost no request; writes are requests, and the next read sees them.

    Every write is booked under the client's field manager. Writes raise the ApiError tree: Conflict, Invalid,
    Forbidden and so on; a reconciler lets them pass, and the controller tries again. Reads of a kind that no
    controller declared raise NotCached, and so do those of a kind that is declared with a selector only: what
    is not selected would seem not to exist (see `selecting`).

    With `dry_run=True` a write is checked, defaulted and admitted as any other, but not stored: it returns
    what would be, and no read shows it.

    Attributes: `metadata` reads kinds that are watched for their metadata only; `uncached` reads from the
    server; `status` writes the status subresource.
    """

    def __init__(self, transport: Transport, mapper: RestMapper, cache: Cache, *, field_manager: str) -> None:
        super().__init__(cache)
        self._transport = transport
        self._mapper = mapper
        self._writer = Writer(transport, mapper, cache)
        self._applier = Applier(self._writer, cache, field_manager=field_manager)
        self.field_manager = field_manager
        self.metadata = MetadataReader(cache)
        self.uncached = LiveReader(transport, mapper)
        self.status = StatusClient(self._writer, field_manager=field_manager)

    def named(self, controller: str) -> Client:
        """A client with a field manager of its own, so that controllers do not share fields by accident."""
        name = f"{self.field_manager}-{controller}"
        return Client(self._transport, self._mapper, self._cache, field_manager=name)

    async def create(self, obj: R, *, dry_run: bool = False) -> R:
        """Create the object; raises AlreadyExists. Returns it as stored."""
        await self._writer.check_owners(obj, type(obj))
        body = orjson.dumps(whole_object(obj))
        query = booked(self.field_manager, dry_run=dry_run)
        raw = await self._writer.send_create(type(obj), obj.key.namespace, body, query)
        return decode_object(raw, type(obj), obj.key)

    async def update(self, obj: R, *, dry_run: bool = False) -> R:
        """Replace the object; raises Conflict when it changed since it was read. Returns it as stored."""
        await self._writer.check_owners(obj, type(obj))
        body = orjson.dumps(whole_object(obj))
        query = booked(self.field_manager, dry_run=dry_run)
        raw = await self._writer.send(
            type(obj), obj.key, JSON, body, query, replaces=obj.metadata.resource_version
        )
        return decode_object(raw, type(obj), obj.key)

    async def patch(
        self,
        obj: R,
        *,
        kind: type[Resource] | None = None,
        optimistic_lock: bool = False,
        dry_run: bool = False,
    ) -> R:
        """Send what was changed in the object since it was read; nothing when nothing was.

        Fields that others change at the same time are left alone. With `optimistic_lock` it demands the
        version that was read, and raises Conflict when the object has changed since: for a change that is
        right only beside what else was read. Finalizers and owner references are lists that others write
        too, so changing one of those always demands it. Raises Conflict as well when the object was
        replaced by another one of its name. The status is not sent: see `status`. Raises ValueError for an
        object that was not read from the API server.

        `kind` is needed for an object of which only the metadata was read: then labels, annotations,
        finalizers and owner references are what can be changed, and the metadata is what is returned.
        """
        if obj.origin is None:
            raise ValueError(
                f"{obj.kind} {obj.key} was not read from the API server: use create() or apply()"
            )
        kind = kind or type(obj)
        before = _patchable(orjson.loads(obj.origin))
        changes = merge_diff(before, _patchable(obj.to_wire()))
        if not changes:
            return obj
        metadata = changes.setdefault("metadata", {})
        replaces = ""
        if "ownerReferences" in metadata:
            await self._writer.check_owners(obj, kind)
        if optimistic_lock or SHARED_LISTS & metadata.keys():
            replaces = metadata["resourceVersion"] = obj.metadata.resource_version
        metadata["uid"] = obj.metadata.uid
        query = booked(self.field_manager, dry_run=dry_run)
        try:
            raw = await self._writer.send(
                kind, obj.key, MERGE_PATCH, orjson.dumps(changes), query, replaces=replaces
            )
        except Invalid as error:
            if any(cause.get("field") == "metadata.uid" for cause in error.details.get("causes", ())):
                raise Conflict(
                    409, "Conflict", f"{kind.gvk.kind} {obj.key} was replaced by another one"
                ) from error
            raise
        if isinstance(obj, PartialObjectMetadata):
            raw = metadata_of(raw)
        return decode_object(raw, type(obj), obj.key)

    async def apply(
        self, obj: R, *, owner: Resource | None = None, force: bool = True, dry_run: bool = False
    ) -> Applied[R]:
        """Bring the object to the fields set in `obj`, creating it where it is missing.

        Server-side apply, forced: fields set here by others are put back, fields that were applied before
        and are not in `obj` any more are removed, and fields that `obj` does not name stay as they are.
        Sends nothing when the cached object already holds all of it. With `force=False` what others have set
        otherwise is left to them: raises ApplyConflict, which names them and the fields.

        With `owner`, the object gets a controller reference to it, and one that has another controller, or
        none, is left alone: raises OwnedByOther, which tells whether this client made it. Raises ValueError
        for an owner in another namespace, or in one where the object is in none.

        A dry run of an object that this client has created, and not changed since, cannot show which fields
        would be removed, nor what others would have against it.
        """
        return await self._applier.apply(obj, owner=owner, force=force, dry_run=dry_run)

    async def delete(
        self,
        obj: Resource,
        *,
        kind: type[Resource] | None = None,
        propagation: Propagation | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete this very object (by uid); raises NotFound, or Conflict when it was replaced meanwhile.

        `kind` is needed for an object of which only the metadata was read. `propagation` says what becomes
        of the objects it owns; without it, the kind's default.
        """
        options = _delete_options(propagation, dry_run=dry_run)
        if obj.metadata.uid:
            options["preconditions"] = {"uid": obj.metadata.uid}
        await self._writer.send_delete(kind or type(obj), obj.key, obj.metadata.uid, options)

    async def delete_collection(
        self,
        kind: type[Resource],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        propagation: Propagation | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete all objects that match, in one request; without a selector, all there are.

        Cached reads show it only when the watch has told of it: the server does not say which objects are
        gone and which have finalizers. Raises ValueError for a namespaced kind without a namespace.
        """
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        query = {name: value for name, value in selectors.items() if value}
        options = _delete_options(propagation, dry_run=dry_run)
        await self._writer.send_delete_collection(kind, namespace, query, options)

    async def delete_if_there(self, obj: Resource, *, kind: type[Resource] | None = None) -> bool:
        """Delete this very object; nothing, and False, when it is gone, or another one has its name."""
        try:
            await self.delete(obj, kind=kind)
        except (Conflict, NotFound):
            return False
        return True

    @asynccontextmanager
    async def watch(
        self, kind: type[R], *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> AsyncIterator[LiveList[R]]:
        """All objects that match, again and again, whenever one of them has changed; see `LiveList`.

            async with client.watch(Pod, namespace="default", label_selector="app=web") as live:
                async for pods in live: ...

        For programs that look at a few objects for a while: it is a watch of its own. An operator declares
        what it watches instead (`owns`, `watches`), and shares it. `namespace=""` means all namespaces.

        Raises what the server answers to a first, small list: Forbidden, NoMatch, Unreachable and so on.
        From then on the watch mends itself, whatever fails.
        """
        await self.uncached.probe(
            kind, namespace=namespace, label_selector=label_selector, field_selector=field_selector
        )
        informer = self._cache.separate(
            kind, namespaces=(namespace,), label_selector=label_selector, field_selector=field_selector
        )
        async with followed(informer, kind) as live:
            yield live

    async def discover(self, api_version: str, kind: str) -> type[Unstructured]:
        """The kind of which no more is known than its name, as the API server serves it.

        Raises NoMatch when it does not.
        """
        mapping = await self._mapper.resolve(GroupVersionKind.from_api_version(api_version, kind))
        return Unstructured.of(api_version, kind, plural=mapping.plural, namespaced=mapping.namespaced)

    def subresource(self, name: str) -> SubresourceClient:
        """A subresource other than status, such as `scale`."""
        return SubresourceClient(self._writer, name)


def _delete_options(propagation: Propagation | None, *, dry_run: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if dry_run:
        options["dryRun"] = ["All"]
    return options


def _patchable(wire: dict[str, Any]) -> dict[str, Any]:
    """The part of an object that a patch of the object itself may change."""
    fields = {name: value for name, value in wire.items() if name not in ("apiVersion", "kind", "status")}
    metadata = wire.get("metadata", {})
    fields["metadata"] = {
        # Absent and empty are the same to the server.
        name: metadata[name]
        for name in ("labels", "annotations", "finalizers", "ownerReferences")
        if metadata.get(name)
    }
    return fields
