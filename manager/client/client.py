"""The client that reconcilers use: reads from the cache, writes to the server."""

from __future__ import annotations

import enum
import os
import random
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypedDict, TypeVar, Unpack, overload

import orjson
from pydantic import ValidationError

from manager.api import (
    GroupVersionKind,
    ObjectKey,
    OwnerReference,
    PartialObjectMetadata,
    Resource,
    Unstructured,
)
from manager.cache import Cache, metadata_of
from manager.cache.record import CUT, MOST_KEPT, Record, RecordDecoder
from manager.client.child_label import ChildLabel, label_of
from manager.client.comparison import matches
from manager.client.errors import ApplyConflict, FieldConflict, OwnedByOther, name_nearest
from manager.client.kubernetes import api_client_on, pod_streams_on
from manager.client.managed_fields import (
    APPLIED_METADATA,
    Ownership,
    Path,
    Repair,
    creator_name,
    decoded,
    field_name,
    field_path,
    may_repeat_keys,
    metadata_steps,
    owned_fields,
    refused_lists,
    without_fields,
)
from manager.client.reader import (
    CachedReader,
    LiveList,
    LiveReader,
    MetadataReader,
    decode_at_once,
    decode_object,
)
from manager.client.write import (
    APPLY_PATCH,
    DRY_RUN,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    KubernetesModel,
    StatusClient,
    SubresourceClient,
    applied_fields,
    encode_applied,
    merge_diff,
    record_spared,
    remember,
    resource_of,
    sent_fields,
    whole_object,
)
from manager.kube.config import load_config
from manager.kube.decoding import json_object, not_a
from manager.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NoMatch,
    NotFound,
    ProtocolError,
    ServerError,
)
from manager.kube.http_wire import HttpWire
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics
from manager.util import clock
from manager.util.loop import own_turn

if TYPE_CHECKING:
    from manager.client.kubernetes import PodStreams, TransportApiClient

R = TypeVar("R", bound=Resource)

Propagation = Literal["Background", "Foreground", "Orphan"]

# Lists that a merge patch replaces as a whole: it would undo a concurrent change by another client.
SHARED_LISTS = frozenset({"finalizers", "ownerReferences"})

SETTLED_OBJECTS = 10_000
"""The number of objects for which a client remembers that they have their wanted fields."""

REFUSED_SECONDS = 300.0
"""Seconds without another attempt to repair an object after the server has refused the repair. No event
reports when the server would accept the repair, for example after a change of a policy."""

# The number of items of others in a refused list that a repair tries to keep.
_MOST_KEPT = 16

_UNTYPED = "failed to create typed patch object"

# The number of attempts to merge our entries, or to repair an object, while other clients change it.
TAKEOVER_ATTEMPTS = 3

_UNKNOWN = -1
"""A value that no hash has in Python; it stands for an unknown state."""

Written = tuple[Record, tuple[FieldConflict, ...]]
"""The answer to a write, and the fields that others had set to other values."""


class Outcome(enum.Enum):
    """The effect of an apply, and its cause."""

    CREATED = "created"
    UPDATED = "updated"
    """The operator wants other fields than at the last apply, as far as the client can tell."""

    RESTORED = "restored"
    """Another client had changed the object."""

    UNCHANGED = "unchanged"


class Applied(NamedTuple, Generic[R]):
    """The result of an apply.

    Attributes: `object`, as the server now has it; `previous`, the object before a change, else None;
    `outcome`; `conflicts`, the fields that other managers had set to other values, with these managers.
    """

    object: R
    previous: R | None
    outcome: Outcome
    conflicts: tuple[FieldConflict, ...] = ()


class ApplyOptions(TypedDict, total=False):
    """The options of `Client.apply`; only `force` is true by default."""

    owner: Resource | None
    initial: Sequence[str]
    may_update: Callable[[], bool] | None
    adopt: bool
    force: bool
    dry_run: bool


@dataclass(slots=True)
class _Change:
    kind: type[Resource]
    key: ObjectKey
    live: Ownership
    encoded: bytes
    body: dict[str, Any]
    """The fields to apply, and the UID, so that the server refuses to change a replaced object."""
    given_up: Sequence[Path]
    """Fields that this client leaves to others."""
    force: bool
    dry_run: bool

    def repair(self, there: Ownership, *lists: Any) -> Repair:
        """Return a patch that changes the stored object `there` in the same way as the apply."""
        shares = there.shares(self.given_up, self.kind.gvk.api_version)
        return Repair(there.live, self.body, *shares, *lists)


class Client(CachedReader):
    """A client that reads from the cache, usually without a request; reads see the client's own writes.

    Every write uses the client's field manager. Writes raise subclasses of ApiError: Conflict, Invalid,
    Forbidden and so on. A reconciler does not catch them; the controller retries. Reads raise NotCached if no
    controller has declared the kind, or if controllers have declared it only with a selector (see
    `selecting`).

    `create`, `update`, `apply` and `delete` also accept models of kubernetes-asyncio, such as `V1Deployment`,
    and return objects of `manager.api`.

    With `dry_run=True`, the server validates, defaults and admits a write, but does not store it. The write
    returns the result; reads do not see it.

    Attributes: `metadata` reads kinds that are watched as metadata only; `uncached` reads from the server;
    `status` writes the status subresource; `child_label` is a label that `apply` sets on children.
    """

    def __init__(
        self,
        transport: Transport,
        mapper: RestMapper,
        cache: Cache,
        *,
        field_manager: str,
        former_managers: Sequence[str] = (),
        child_label: ChildLabel | None = None,
    ) -> None:
        self.uncached = LiveReader(transport, mapper)
        super().__init__(cache, live=self.uncached)
        self.metadata = MetadataReader(cache, live=self.uncached)
        self.status = StatusClient(self._send)
        self._transport = transport
        self._mapper = mapper
        self.field_manager = field_manager
        self.former_managers = tuple(former_managers)
        self.child_label = child_label
        self._ownership = partial(Ownership, field_manager=field_manager, former=self.former_managers)
        cache.managers.add(former_managers)
        self._settled = OrderedDict[str, tuple[int, int]]()
        """By UID: hashes of the wanted fields that an object has, and of its state right after our write.

        There is nothing to write as long as both stay the same (see `Ownership.state`). This check costs a
        third of a comparison. And no comparison without the schema can recognise a value that the server
        spells in its own way: it stores a quantity of "0.5" as "500m", and drops an empty list.
        """
        self._corrected = OrderedDict[str, dict[Path, Any]]()
        """By UID: the metadata that `correct` was last called with."""
        self._refused = OrderedDict[str, tuple[int, float, ApiError]]()
        """By UID: the state whose repair the server has refused, until when it is not repeated, and why."""
        self._kubernetes_client: TransportApiClient | None = None

    @cached_property
    def pod_streams(self) -> PodStreams:
        """Return the API for pods: commands, attached processes, ports and logs."""
        return pod_streams_on(self._transport)

    def kubernetes_client(self) -> TransportApiClient:
        """Return an `ApiClient` of kubernetes-asyncio on this client's transport.

            pods = await CoreV1Api(client.kubernetes_client()).list_namespaced_pod("default")

        It uses the transport's credentials, TLS, proxy, retries, metrics, traces and fence. Reads send
        requests. Writes raise Fenced when the lease is lost; the next cached read sees a write's result.
        Errors of the server are both `ApiException` and `ApiError`. Writes use the client's field manager.

        Raises ConfigError if the package is not installed.
        """
        if self._kubernetes_client is None:
            self._kubernetes_client = api_client_on(
                self._transport, self._cache, field_manager=self.field_manager
            )
        return self._kubernetes_client

    def named(self, controller: str, *, former_managers: Sequence[str] = ()) -> Client:
        """Return a client with its own field manager, so that controllers do not share fields by accident.

        Its applies take over fields of `former_managers`, and of the field managers that the controller used
        under former names of the program.
        """
        return Client(
            self._transport,
            self._mapper,
            self._cache,
            field_manager=f"{self.field_manager}-{controller}",
            former_managers=(*(f"{each}-{controller}" for each in self.former_managers), *former_managers),
            child_label=self.child_label,
        )

    @overload
    async def create(self, obj: R, *, dry_run: bool = False) -> R: ...
    @overload
    async def create(self, obj: KubernetesModel, *, dry_run: bool = False) -> Any: ...
    async def create(self, obj: Resource | KubernetesModel, *, dry_run: bool = False) -> Resource:
        """Create the object and return it as stored.

        Raises AlreadyExists, and BadRequest if the object has a field that the server does not know.
        """
        # Without this option, the server drops such fields.
        return await self._send_whole("POST", resource_of(obj), dry_run=dry_run, fieldValidation="Strict")

    @overload
    async def update(self, obj: R, *, dry_run: bool = False) -> R: ...
    @overload
    async def update(self, obj: KubernetesModel, *, dry_run: bool = False) -> Any: ...
    async def update(self, obj: Resource | KubernetesModel, *, dry_run: bool = False) -> Resource:
        """Replace the object and return it as stored; raises Conflict if it has changed since the read."""
        obj = resource_of(obj)
        return await self._send_whole("PUT", obj, dry_run=dry_run, replaces=obj.metadata.resource_version)

    async def _send_whole(self, method: str, obj: R, **more: Any) -> R:
        if not obj.namespaced:
            await self._check_owners(obj, type(obj))
        raw, _ = await self._send(method, type(obj), obj.key, whole_object(obj), **more)
        return await decode_object(raw, type(obj), obj.key)

    async def patch(
        self,
        obj: R,
        *,
        kind: type[Resource] | None = None,
        optimistic_lock: bool = False,
        dry_run: bool = False,
    ) -> R:
        """Send the changes made to the object since it was read; send nothing without changes.

        Concurrent changes of other fields are kept. With `optimistic_lock`, the patch requires the version
        that was read, and raises Conflict if the object has changed since: use it for a change that depends
        on the rest of the object. A change of finalizers or owner references always requires the version,
        because other clients write these lists, too. Raises Conflict also if another object with the same
        name has replaced the object. The patch omits the status: see `status`. Raises ValueError for an
        object that was not read from the API server.

        `kind` is required for an object that was read as metadata only. The patch can then change labels,
        annotations, finalizers and owner references, and returns the metadata.
        """
        if obj.origin is None:
            raise ValueError(
                f"{obj.kind} {obj.key} was not read from the API server: use create() or apply()"
            )
        kind, key = kind or type(obj), obj.key
        # A default of the model is no change, even if the server does not store it.
        known = await decode_object(obj.origin, type(obj), key)
        changes = merge_diff(_patchable(sent_fields(known)), _patchable(sent_fields(obj)))
        if not changes:
            record_spared("patch", kind, key)
            return obj
        metadata = changes.setdefault("metadata", {})
        is_partial = isinstance(obj, PartialObjectMetadata)
        for name in metadata.keys() & orjson.loads(obj.origin).get(CUT, ()) if is_partial else ():
            raise ValueError(
                f"{kind.gvk.kind} {key} has more {name} than the {MOST_KEPT} that are cached: "
                "to change them, read it with client.uncached"
            )
        if "ownerReferences" in metadata and not kind.namespaced:
            await self._check_owners(obj, kind)
        replaces = ""
        if optimistic_lock or SHARED_LISTS & metadata.keys():
            replaces = metadata["resourceVersion"] = obj.metadata.resource_version
        metadata["uid"] = obj.metadata.uid
        booked: Any = {"content_type": MERGE_PATCH, "dry_run": dry_run, "replaces": replaces}
        try:
            raw, _ = await self._send("PATCH", kind, key, changes, **booked)
        except Invalid as error:
            if any(cause.get("field") == "metadata.uid" for cause in error.details.get("causes", ())):
                message = f"{kind.gvk.kind} {key} was replaced by another one"
                raise Conflict(409, "Conflict", message) from error
            raise
        return await decode_object(metadata_of(raw, kind.gvk) if is_partial else raw, type(obj), key)

    async def correct(self, obj: R) -> Applied[R]:
        """Write changed metadata of an object that is created, not applied; return a result like `apply`.

        Use it for objects that a program creates, and later only labels or gives another owner. The outcome
        is RESTORED if another client had set or removed the changed metadata. Call it even without changes:
        it records the labels, so that a removal by another client, which leaves no trace, is recognised.
        """
        assert obj.origin is not None
        kind, key, uid = type(obj), obj.key, obj.metadata.uid
        known = metadata_steps(decoded(kind, obj.origin)["metadata"])
        wanted = metadata_steps(applied_fields(obj, None, None)["metadata"])
        changes = {
            path: wanted.get(path) for path in {**known, **wanted} if known.get(path) != wanted.get(path)
        }
        if not changes:
            remember(self._corrected, uid, wanted, SETTLED_OBJECTS)
            return Applied(obj, None, Outcome.UNCHANGED)
        raw = await self.uncached.read(kind, key)  # the cache has no managedFields entries of other managers
        live, stored = self._ownership(decoded(kind, raw)), await self.patch(obj)
        last = self._corrected.get(uid, {})
        remember(self._corrected, uid, wanted, SETTLED_OBJECTS)
        conflicts, removed = dict[FieldConflict, None](), False
        for path, value in changes.items():
            others = live.setters(path)
            field = field_name(path if isinstance(value, str) else path[:2])
            conflicts |= {FieldConflict(other, field): None for other in others or ()}
            removed = removed or (others == [] and (path, value) in last.items())
        outcome = Outcome.RESTORED if conflicts or removed else Outcome.UPDATED
        return Applied(stored, decode_at_once(raw, kind, key, parsed=live.live), outcome, tuple(conflicts))

    async def delete(
        self,
        obj: Resource | KubernetesModel,
        *,
        kind: type[Resource] | None = None,
        propagation: Propagation = "Background",
        dry_run: bool = False,
    ) -> None:
        """Delete exactly this object (by UID); raises NotFound, or Conflict if another object replaced it.

        `propagation` decides about the objects that the object owns. `Background`: the garbage collector
        deletes them afterwards. `Foreground`: they are deleted first, and the object waits. `Orphan`: they
        stay, without their owner reference. A repeated delete, while the object waits for finalizers,
        replaces the earlier `propagation`. `kind` is required for an object that was read as metadata only.
        """
        obj = resource_of(obj)
        kind, key, uid = kind or type(obj), obj.key, obj.metadata.uid
        options = _delete_options(propagation, dry_run=dry_run)
        if uid:
            options["preconditions"] = {"uid": uid}
        mapping = await self._mapper.resolve(kind.gvk)
        path = mapping.path(key.namespace, key.name)
        raw = await self._transport.request("DELETE", path, body=orjson.dumps(options))
        if not dry_run:
            self._cache.observe_delete(kind, key, uid, raw)

    async def delete_collection(
        self,
        kind: type[Resource],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        propagation: Propagation = "Background",
        dry_run: bool = False,
    ) -> None:
        """Delete all matching objects in one request; without selectors, delete all objects.

        For `propagation` see `delete`. Cached reads see the deletion only after the watch events, because the
        answer does not say which objects are gone and which have finalizers. Raises ValueError for a
        namespaced kind without a namespace.
        """
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        query = {name: value for name, value in selectors.items() if value}
        mapping = await self._mapper.resolve(kind.gvk)
        if mapping.namespaced and not namespace:
            raise ValueError(f"{kind.gvk} is namespaced: its objects are deleted in one namespace at a time")
        body = orjson.dumps(_delete_options(propagation, dry_run=dry_run))
        await self._transport.request("DELETE", mapping.path(namespace), query=query, body=body)

    async def delete_if_there(
        self,
        obj: Resource | KubernetesModel,
        *,
        kind: type[Resource] | None = None,
        propagation: Propagation = "Background",
    ) -> bool:
        """Delete exactly this object; return False if it is gone or another object has replaced it."""
        try:
            await self.delete(obj, kind=kind, propagation=propagation)
        except (Conflict, NotFound):
            return False
        return True

    @asynccontextmanager
    async def watch(
        self, kind: type[R], *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> AsyncIterator[LiveList[R]]:
        """Watch all matching objects: yield the whole list after every change; see `LiveList`.

            async with client.watch(Pod, namespace="default", label_selector="app=web") as live:
                async for pods in live: ...

        Use it in programs that need a few objects for a short time: each call opens its own watch. An
        operator declares its watches instead (`owns`, `watches`) and shares them. `namespace=""` means all
        namespaces.

        Raises the server's error for a first, small list: Forbidden, NoMatch, Unreachable and so on.
        Afterwards the watch recovers from every failure.
        """
        await self.uncached.probe(
            kind, namespace=namespace, labels=label_selector, field_selector=field_selector
        )
        informer = self._cache.separate(
            kind, namespaces=(namespace,), label_selector=label_selector, field_selector=field_selector
        )
        async with LiveList(informer, kind) as live:
            yield live

    async def discover(self, api_version: str, kind: str) -> type[Unstructured]:
        """Return the kind with that name, as the API server serves it; raises NoMatch if it does not."""
        mapping = await self._mapper.resolve(GroupVersionKind.from_api_version(api_version, kind))
        return Unstructured.of(api_version, kind, plural=mapping.plural, namespaced=mapping.namespaced)

    def subresource(self, name: str) -> SubresourceClient:
        """Return a client of a subresource other than status, such as `scale`."""
        return SubresourceClient(self._transport, self._mapper, name, field_manager=self.field_manager)

    @overload
    async def apply(self, obj: R, **options: Unpack[ApplyOptions]) -> Applied[R]: ...
    @overload
    async def apply(self, obj: KubernetesModel, **options: Unpack[ApplyOptions]) -> Applied[Any]: ...
    async def apply(self, obj: Resource | KubernetesModel, **options: Unpack[ApplyOptions]) -> Applied[Any]:
        """Set the object's fields to those in `obj`; create the object if it is missing.

        This is a forced server-side apply: it reverts other clients' changes of these fields, removes fields
        that an earlier apply set and `obj` lacks, and keeps all other fields. No request is sent if the
        cached object already matches. The outcome is RESTORED if `obj` equals the last apply, so that another
        client must have changed the object, and UPDATED otherwise.

        If other managers have set these fields to other values, the result names the managers and the fields.
        With `force=False`, apply raises ApplyConflict with the same details instead.

        `initial` lists paths, such as `.spec.replicas`, of fields that apply sets when it creates the object,
        and leaves to others afterwards. If the client already owns them, it gives up the ownership, and their
        values are kept.

        `may_update` is called before an update, but not before a creation or restoration. If it returns
        False, nothing is written.

        With `owner`, the object gets a controller reference to the owner. An object with another controller,
        or without one, is not changed: OwnedByOther is raised (see its `made_here`). With `adopt`, an object
        without a controller that this client has created or applied gets the reference.
        Raises ValueError for an owner in another namespace, or for a namespaced owner of a cluster-scoped
        object.

        A refused apply changes nothing. If the only cause of the refusal is that others have added items
        to our lists, one patch sets the same fields and removes these items, provided that a dry run of the
        patch succeeds.

        A forced dry run shows no conflicts if this client has created the object and not changed it since.
        """
        obj = resource_of(obj)
        kind, key = type(obj), obj.key
        owner, adopt = options.get("owner"), options.get("adopt", False)
        may_update, dry_run = options.get("may_update"), options.get("dry_run", False)
        given_up = tuple(map(field_path, options.get("initial", ())))
        wanted = applied_fields(obj, owner, self.child_label)
        if not kind.namespaced:
            await self._check_owners(obj, kind)
        found = await self._find_known(kind, key, owner, adopt=adopt)
        if found is None:
            try:
                return await self._create(obj, key, wanted, given_up, dry_run=dry_run)
            except AlreadyExists:
                # The cache lacks the object, or another client has just created it: read before writing.
                found = self._record(kind, await self._read(kind, key))
        live = await self._owned(kind, found)
        adopted = False
        if owner is not None:
            adopted = _refuse_foreign(kind, key, live, owner, adopt=adopt)
            self._keep_label(wanted, owner, live)
        encoded = encode_applied(wanted, obj)
        if given_up:
            wanted = without_fields(orjson.loads(encoded), given_up)
            encoded = orjson.dumps(wanted)
        # Convert our create entry to an apply entry only if a change follows.
        taken_over = live.former or bool(given_up and live.applied is not None and live.owns(given_up))
        last, state = self._settled.get(live.uid, (_UNKNOWN, _UNKNOWN))
        is_wanted = last == hash(encoded)
        spared = not taken_over and (
            (is_wanted and state == live.state()) or self._matches(wanted, encoded, live)
        )
        if spared:
            if not is_wanted:
                self._settle(live.uid, encoded)
            record_spared("apply", kind, key)
        elif may_update is not None and not self._wants_the_same(encoded, live, ()):
            spared = not may_update()
        if spared:
            return Applied(decode_at_once(found.raw, kind, key, parsed=live.live), None, Outcome.UNCHANGED)
        body = orjson.loads(encoded)
        body["metadata"]["uid"] = live.uid
        change = _Change(kind, key, live, encoded, body, given_up, options.get("force", True), dry_run)
        written, conflicts = await self._write(change, taken_over=taken_over or bool(live.created_by))
        restores = adopted or self._wants_the_same(encoded, live, conflicts)
        after = await self._owned(kind, written)
        if not dry_run:
            self._settle(live.uid, encoded, after)
            live.note_change_to(after, body)
        now = decode_at_once(written.raw, kind, key, parsed=after.live)
        if after.content == live.content:
            return Applied(now, None, Outcome.UNCHANGED)  # the write only recorded our ownership
        outcome = Outcome.RESTORED if restores else Outcome.UPDATED
        return Applied(now, decode_at_once(found.raw, kind, key, parsed=live.live), outcome, conflicts)

    async def refuse_foreign(self, kind: type[Resource], key: ObjectKey, owner: Resource) -> None:
        """Raise OwnedByOther, as `apply` would, for the object with that name; write nothing."""
        found = await self._find_known(kind, key, owner)
        if found is not None:
            _refuse_foreign(kind, key, await self._owned(kind, found), owner, adopt=False)

    async def _find_known(
        self, kind: type[Resource], key: ObjectKey, owner: Resource | None, *, adopt: bool = False
    ) -> Record | None:
        """Return the object's state from the cache or the server; None if the object does not exist.

        The state may be only the metadata if another owner controls the object. `adopt` forces a read from
        the server.
        """
        informer = None if adopt else self._cache.lookup(kind)
        if informer is not None and informer.covers(key.namespace):
            record = informer.get(key)
            if record is None and informer.filter is None:
                return None
            if record is not None and not record.is_cut:
                return record
            controller = None if record is None or owner is None else record.meta().controller
            if record and owner and controller and controller.uid != owner.metadata.uid:
                return record
        # A cache with a selection, or of one shard, does not show whether the object exists.
        if not adopt and (selected := self._cache.held(kind, key)) is not None:
            return selected
        with suppress(NotFound):
            return self._record(kind, await self._read(kind, key))
        return None

    def _record(self, kind: type[Resource], raw: bytes) -> Record:
        try:
            return RecordDecoder(kind.gvk, field_manager=self._cache.managers)(raw)[0]
        except ProtocolError:  # a dry run of a create returns no resourceVersion
            return Record(ObjectKey("", ""), raw, decoded(kind, raw)["metadata"]["uid"], 0)

    async def _owned(self, kind: type[Resource], record: Record) -> Ownership:
        """Return the ownership in a record; large records are decoded one per iteration of the event loop."""
        await own_turn(len(record.raw))
        live = json_object(record.raw, f"a {kind.gvk.kind} object")
        return self._ownership(live, managed=record.managed)

    async def _read(self, kind: type[Resource], key: ObjectKey) -> bytes:
        mapping = await self._mapper.resolve(kind.gvk)
        return await self._transport.request("GET", mapping.path(key.namespace, key.name))

    async def _check_owners(self, obj: Resource, kind: type[Resource]) -> None:
        """Raise ValueError if a cluster-scoped object has an owner in a namespace.

        The garbage collector would treat the object as an orphan and delete it. The owner of a namespaced
        object is in the same namespace or in none, because the reference has no namespace.
        """
        for owner in obj.metadata.owner_references:
            with suppress(NoMatch):
                gvk = GroupVersionKind.from_api_version(owner.api_version, owner.kind)
                if (await self._mapper.resolve(gvk)).namespaced:
                    error = f"{owner.kind} {owner.name} cannot own {kind.gvk.kind} {obj.metadata.name}"
                    raise ValueError(f"{error}, which is in no namespace")

    def _keep_label(self, wanted: dict[str, Any], owner: Resource, live: Ownership) -> None:
        """Add the label of the owner's children to `wanted` if the child has the correct label already."""
        label = self.child_label
        if label is not None and not label.is_set:
            value = (live.metadata.get("labels") or {}).get(label.key)
            if value is not None and value == label_of(owner.metadata.uid):
                wanted["metadata"].setdefault("labels", {})[label.key] = value

    def _matches(self, wanted: dict[str, Any], encoded: bytes, live: Ownership) -> bool:
        """Return whether the object has all wanted fields, and this client owns them."""
        if live.created_by and live.created_by != creator_name(self.field_manager, encoded):
            return False
        # After a create, the server counts its defaults as our fields, too.
        owned, exact = (live.created, False) if live.created_by else (live.applied, True)
        # Compare without conversion first: it nearly always suffices. In JSON, a tuple becomes a list.
        return owned is not None and (
            matches(owned_fields(wanted), live.live, owned, exact=exact)
            or matches(owned_fields(orjson.loads(encoded)), live.live, owned, exact=exact)
        )

    def _wants_the_same(self, encoded: bytes, live: Ownership, conflicts: Sequence[FieldConflict]) -> bool:
        """Return whether our last apply had the same content, so that another client has changed the object.

        If the last apply is unknown, the result is whether there are conflicts.
        """
        known = self._settled.get(live.uid)
        if known is not None:
            return known[0] == hash(encoded)
        if live.created_by:
            return live.created_by == creator_name(self.field_manager, encoded)
        return bool(conflicts)

    def _settle(self, uid: str, encoded: bytes, after: Ownership | None = None) -> None:
        """Remember that an object has the wanted fields, and (with `after`) the state after our write."""
        state = _UNKNOWN if after is None else after.state()
        remember(self._settled, uid, (hash(encoded), state), SETTLED_OBJECTS)

    async def _create(
        self, obj: R, key: ObjectKey, wanted: dict[str, Any], given_up: Sequence[Path], *, dry_run: bool
    ) -> Applied[R]:
        kind, encoded = type(obj), encode_applied(wanted, obj)
        kept = encoded
        if given_up:
            whole = orjson.loads(encoded)
            for path in given_up:
                if without_fields(whole, (path,)) == whole:
                    what = f"{kind.gvk.kind} {key} is created"
                    raise ValueError(f"{what} without its initial {field_name(path)}")
            kept = orjson.dumps(without_fields(whole, given_up))
        if may_repeat_keys(encoded):
            # POST accepts two list items with the same key, but no apply ever does. So an apply creates the
            # object; it demands a resource version that no existing object has.
            whole = orjson.loads(encoded)
            whole["metadata"]["resourceVersion"] = "1"
            try:
                created = await self._send_apply(kind, key, whole, dry_run=dry_run, creates=True)
            except Conflict as error:
                raise AlreadyExists(409, "AlreadyExists", str(error)) from error
        else:
            manager = creator_name(self.field_manager, kept)
            booked: Any = {"manager": manager, "dry_run": dry_run, "fieldValidation": "Strict"}
            raw, cached = await self._send("POST", kind, key, encoded, **booked)
            created = cached or self._record(kind, raw)
        after = await self._owned(kind, created)
        if not dry_run:
            self._settle(after.uid, kept, after)
        return Applied(decode_at_once(created.raw, kind, key, parsed=after.live), None, Outcome.CREATED)

    async def _write(self, change: _Change, *, taken_over: bool) -> Written:
        """Send an apply for an existing object, or repair the object if the apply is refused."""
        try:
            return await self._update(change, taken_over=taken_over)
        except Invalid as refusal:
            # Others may have added items to our lists.
            if not change.force:
                raise
            repaired = await self._repair(change, refusal)
        if change.dry_run:
            return repaired
        # The object has the wanted fields now. This apply records our ownership.
        return (await self._update(change, taken_over=True))[0], repaired[1]

    async def _update(
        self, change: _Change, *, taken_over: bool = False, force: bool = False, **more: Any
    ) -> Written:
        """Send an apply for an existing object; with `taken_over`, first merge our managedFields entries.

        Without `force`, the first request lets the server name the other managers that have set the fields.
        After a refusal, a second request overrides them, unless the caller of `apply` forbids that. Our own
        other entries, which are merged or are about to be, are always overridden. `more` is for `_send`.
        """
        if taken_over:
            there = await self._reread(change)
            tried = await self._try(change, there)
            if change.dry_run:
                return tried, ()
            await self._take_over(change, there)
        sent, more = (change.kind, change.key, change.body), {"dry_run": change.dry_run, **more}
        try:
            return await self._send_apply(*sent, force=force, **more), ()
        except ApplyConflict as error:
            sender = more.get("manager", self.field_manager)
            ours = {self.field_manager, *self.former_managers}
            error.conflicts = tuple(
                each
                for each in error.conflicts
                # The sender's own name stands for an Update, such as `patch`, which is not merged.
                if each.manager == sender or each.manager.partition("+")[0] not in ours
            )
            if error.conflicts and not change.force:
                raise
            return await self._send_apply(*sent, **more), error.conflicts

    async def _reread(self, change: _Change) -> Ownership:
        """Read the object from the server, because a cached object lacks most of its managedFields."""
        return self._ownership(decoded(change.kind, await self._read(change.kind, change.key)))

    async def _try(self, change: _Change, there: Ownership) -> Record:
        """Send an apply as a dry run before the take-over, so that a refusal changes nothing.

        An apply keeps the fields that only our other entries own, and may be refused because of them, such as
        for two ports with one name. If there are such fields, a patch that removes them is tried. Returns the
        object that the server would store.
        """
        repair = change.repair(there)
        try:
            tried, _ = await self._update(change, force=change.force, dry_run=True)
        except Invalid:
            if not repair.releases:
                raise
        else:
            if not repair.releases:
                return tried
        return await self._patch(change, repair.patch_of({"uid": change.live.uid}), dry_run=True)

    async def _take_over(self, change: _Change, there: Ownership) -> None:
        """Merge our entries into one apply entry (see `managed_fields`), before the apply of the change."""
        version, refusal, attempts = None, None, 0
        while attempts < TAKEOVER_ATTEMPTS:
            translation = there.translation(change.given_up, change.kind.gvk.api_version)
            patch = translation[1] if translation else there.takeover(change.given_up)
            if patch is None:
                return
            if refusal is not None and there.version == version:
                raise refusal  # no other client has written in between
            version = there.version
            try:
                if patch:
                    await self._patch(change, patch, JSON_PATCH)
            except Invalid as error:
                refusal, attempts = error, attempts + 1
            else:
                if translation is None:
                    return
                await self._update(change, force=change.force, manager=translation[0])
            there = await self._reread(change)
        raise Conflict(409, "Conflict", f"{change.kind.gvk.kind} {change.key} keeps being changed by others")

    async def _repair(self, change: _Change, refusal: Invalid) -> Written:
        """Send a refused apply as a patch that also removes conflicting items of other managers.

        Raises the refusal if it has another cause (see `Repair`). If the server refuses a dry run of the
        patch, that error is raised, and remembered for a while. In both cases the object is unchanged.
        """
        uid, candidates, conflict = change.live.uid, refused_lists(refusal.details), None
        if not candidates:
            raise refusal
        state = hash((change.encoded, change.live.content))
        last_state, until, known = self._refused.get(uid, (_UNKNOWN, 0.0, None))
        if known is not None and last_state == state and until > clock.monotonic():
            raise type(known)(known.status, known.reason, known.message, known.details)
        for _ in range(TAKEOVER_ATTEMPTS):
            try:
                there = await self._reread(change)
            except NotFound:
                raise refusal from None
            repairs = (change.repair(there, lists) for lists in candidates)
            repair = next((each for each in repairs if each.removed), None)
            if repair is None or there.uid != uid:
                raise refusal
            demanded = {"uid": uid, "resourceVersion": there.version}
            # The next apply takes over the fields of this manager name.
            manager = creator_name(self.field_manager, change.encoded)
            booked: Any = {"manager": manager, "replaces": there.version}
            try:
                repaired = await self._patch(change, repair.patch_of(demanded), dry_run=True, **booked)
                keeps = set[Path]()
                for each in repair.removed[:_MOST_KEPT] if len(repair.removed) > 1 else ():
                    less = change.repair(there, repair.lists, {*keeps, each})
                    with suppress(Invalid):  # the item causes the conflict
                        patch = less.patch_of(demanded)
                        repaired = await self._patch(change, patch, dry_run=True, **booked)
                        keeps, repair = {*keeps, each}, less
                if not change.dry_run:
                    repaired = await self._patch(change, repair.patch_of(demanded), **booked)
                return repaired, repair.conflicts
            except (Invalid, Forbidden, BadRequest) as error:
                refused = state, clock.monotonic() + REFUSED_SECONDS, error
                remember(self._refused, uid, refused, SETTLED_OBJECTS)
                raise
            except Conflict as error:
                conflict = error  # the object, or only its status, has changed since
        raise conflict or refusal

    async def _patch(self, change: _Change, patch: Any, how: str = MERGE_PATCH, **more: Any) -> Record:
        raw, cached = await self._send("PATCH", change.kind, change.key, patch, content_type=how, **more)
        return cached or self._record(change.kind, raw)

    async def _send_apply(
        self, kind: type[Resource], key: ObjectKey, body: Any, *, force: bool = True, **more: Any
    ) -> Record:
        """Send a server-side apply; return the object as stored.

        Raises ApplyConflict, and BadRequest for a body that does not fit the schema.
        """
        try:
            raw, cached = await self._send(
                "PATCH", kind, key, body, content_type=APPLY_PATCH, force=str(force).lower(), **more
            )
        except Conflict as error:
            raise ApplyConflict.of(error) or error from None
        except ServerError as error:
            # The server answers 500 to an apply with an unknown field, or with the same key twice.
            if error.message.startswith(_UNTYPED):
                what = error.message.partition("): ")[2] or error.message
                raise BadRequest(400, "BadRequest", f"{kind.gvk.kind} {key}: {what}") from error
            raise
        return cached or self._record(kind, raw)

    async def _send(
        self,
        method: str,
        kind: type[Resource],
        key: ObjectKey,
        body: Any,
        *,
        content_type: str = JSON,
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
        replaces: str = "",
        creates: bool = False,
        **query: str,
    ) -> tuple[bytes, Record | None]:
        """Write an object or its subresource; return it as stored, and the cached record if there is one.

        `body` is JSON text or a JSON value. The write uses the client's field manager, or `manager`.
        `replaces` is the resourceVersion that the body demands, if any; `creates` says that the object must
        not exist yet. The next cached read sees the result, unless this is a dry run.
        """
        mapping = await self._mapper.resolve(kind.gvk)
        query = {"fieldManager": manager or self.field_manager, **(DRY_RUN if dry_run else {}), **query}
        name, new = key.name, ""
        if method == "POST":
            if mapping.namespaced and not key.namespace:
                raise ValueError(f"{kind.gvk} is namespaced: {name!r} needs a metadata.namespace")
            name, new, creates = "", name, True
        try:
            raw = await self._transport.request(
                method,
                mapping.path(key.namespace, name, subresource),
                query=query,
                body=body if isinstance(body, bytes) else orjson.dumps(body),
                content_type=content_type,
                name=new,
            )
        except NotFound as error:
            raise await self._mapper.explain_not_found(error, kind.gvk, subresource) from None
        except BadRequest as error:
            name_nearest(error, kind)
            raise
        if dry_run:
            return raw, None
        # "0" demands no version
        before = 0 if creates else int(replaces or 0) or None
        return raw, self._cache.observe_write(kind, raw, before=before)


@asynccontextmanager
async def connect(
    field_manager: str,
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> AsyncIterator[Client]:
    """Connect to one cluster until the context ends.

        async with connect("my-program") as client:
            pods = await client.uncached.list(Pod, namespace="default")

    The cluster is found by the `kubeconfig` file if given, else by the files in KUBECONFIG, else (without
    `context`) by the pod in which the process runs, else by `~/.kube/config`. In a file, `context` is used,
    else the current context. No request is sent before the first call.

    No cache runs, so read with `client.uncached` and `client.watch`; cached reads raise NotCached.

    Args:
        field_manager: the name of the program, used as field manager of its writes and as user agent.
        kubeconfig: path of a kubeconfig file.
        context: a context of the kubeconfig.
        environ: the process's environment.

    Raises:
        ConfigError: there is no usable configuration; one line that says what is wrong with which file.
    """
    config = await load_config(kubeconfig=kubeconfig, context=context, environ=environ)
    rng, metrics = random.Random(), Metrics()
    transport = Transport(HttpWire(config), metrics=metrics, rng=rng, user_agent=field_manager)
    try:
        mapper = RestMapper(transport)
        cache = Cache(transport, mapper, field_manager=field_manager, metrics=metrics, rng=rng)
        yield Client(transport, mapper, cache, field_manager=field_manager)
    finally:
        await transport.aclose()


def _delete_options(propagation: Propagation, *, dry_run: bool) -> dict[str, Any]:
    # Without a policy, the server uses the kind's default: a deleted Job leaves its pods.
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
    return options | ({"dryRun": ["All"]} if dry_run else {})


def _patchable(wire: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that a patch of the object may change; the status is not among them."""
    fields = {name: value for name, value in wire.items() if name not in ("apiVersion", "kind", "status")}
    metadata = wire.get("metadata", {})
    # The server does not distinguish missing and empty fields.
    fields["metadata"] = {name: metadata[name] for name in APPLIED_METADATA if metadata.get(name)}
    return fields


def _refuse_foreign(
    kind: type[Resource], key: ObjectKey, live: Ownership, owner: Resource, *, adopt: bool
) -> bool:
    """Return True if `owner` may adopt the object, False if it is the controller; else raise OwnedByOther."""
    references = live.metadata.get("ownerReferences", ())
    controller = next((each for each in references if each.get("controller")), None)
    if controller is None:
        made_here = live.created is not None or live.applied is not None or live.former
        if adopt and made_here:
            return True
        raise OwnedByOther(kind.gvk.kind, key, None, made_here=made_here)
    if controller.get("uid") != owner.metadata.uid:
        try:
            other = OwnerReference.model_validate(controller)
        except ValidationError:
            raise not_a(f"a {kind.gvk.kind} object") from None
        finalizers = (live.metadata.get("finalizers") or ()) if "deletionTimestamp" in live.metadata else None
        raise OwnedByOther(kind.gvk.kind, key, other, finalizers=finalizers)
    return False
