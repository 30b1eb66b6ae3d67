"""The client that reconcilers use: reads from the cache, writes to the server."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import orjson

from manager.api import GroupVersionKind, PartialObjectMetadata, Resource, Unstructured
from manager.cache import Cache, metadata_of
from manager.cache.record import CUT, MOST_KEPT
from manager.client.applier import SETTLED_OBJECTS, Applied, Applier, Outcome, decoded
from manager.client.errors import FieldConflict
from manager.client.ownership import field_name, metadata_steps
from manager.client.reader import LiveList, decode_at_once, decode_object
from manager.client.write import (
    MERGE_PATCH,
    KubernetesModel,
    SubresourceClient,
    applied_fields,
    merge_diff,
    record_spared,
    remember,
    resource_of,
    sent_fields,
    whole_object,
)
from manager.kube.config import load_config
from manager.kube.errors import ConfigError, Conflict, Invalid, NotFound
from manager.kube.http_wire import HttpWire
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from manager.client.kubernetes_client import TransportApiClient

R = TypeVar("R", bound=Resource)

Propagation = Literal["Background", "Foreground", "Orphan"]

# Lists that a merge patch replaces as a whole: it would undo a concurrent change by another client.
SHARED_LISTS = frozenset({"finalizers", "ownerReferences"})


class Client(Applier):
    """A client whose reads come from the cache, without a request. Its next read sees each of its writes.

    Every write uses the client's field manager. Writes raise the ApiError tree: Conflict, Invalid, Forbidden
    and so on. A reconciler does not catch them; the controller retries. Reads of a kind that no controller
    declared raise NotCached. So do reads of a kind that is declared with a selector only (see `selecting`).

    `create`, `update`, `apply` and `delete` also take models of kubernetes-asyncio, such as `V1Deployment`,
    and return objects of `manager.api`.

    With `dry_run=True` a write is validated, defaulted and admitted, but not stored. It returns the result,
    and no read shows it.

    Attributes: `metadata` reads kinds that are watched as metadata only; `uncached` reads from the server;
    `status` writes the status subresource; `pod_streams` leads into pods; `child_label` is a label that
    `apply` gives to children.
    """

    def kubernetes_client(self) -> TransportApiClient:
        """Return an `ApiClient` of kubernetes-asyncio on this client's transport.

            pods = await CoreV1Api(client.kubernetes_client()).list_namespaced_pod("default")

        It has the transport's credentials, TLS, proxy, retries, metrics, traces and fence. Reads are
        requests. Writes raise Fenced when the lease is lost, and the next cached read sees their answers.
        Errors of the server are `ApiException`, and `ApiError` too. Writes are booked under the client's
        field manager.

        Raises ConfigError if the package is not installed.
        """
        if self._kubernetes_client is None:
            try:
                from manager.client.kubernetes_client import TransportApiClient  # noqa: PLC0415 - 43 MB, 0.3 s
            except ModuleNotFoundError as error:
                raise ConfigError(
                    f"kubernetes_client needs {error.name}: install operator-manager[kubernetes-asyncio]"
                ) from error
            self._kubernetes_client = TransportApiClient(
                self._transport, self._cache, field_manager=self.field_manager
            )
        return self._kubernetes_client

    def named(self, controller: str, *, former_managers: Sequence[str] = ()) -> Client:
        """Return a client with its own field manager, so that controllers do not share fields by accident.

        Its applies take over fields from these former managers, and from the managers that the controller had
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
        # Else the server drops such fields.
        return await self._send_whole("POST", resource_of(obj), dry_run=dry_run, fieldValidation="Strict")

    @overload
    async def update(self, obj: R, *, dry_run: bool = False) -> R: ...
    @overload
    async def update(self, obj: KubernetesModel, *, dry_run: bool = False) -> Any: ...
    async def update(self, obj: Resource | KubernetesModel, *, dry_run: bool = False) -> Resource:
        """Replace the object; raises Conflict when it changed since it was read. Returns it as stored."""
        obj = resource_of(obj)
        return await self._send_whole("PUT", obj, dry_run=dry_run, replaces=obj.metadata.resource_version)

    async def _send_whole(self, method: str, obj: R, **more: Any) -> R:
        if not obj.namespaced:
            await self._check_owners(obj, type(obj))
        raw = await self._send(method, type(obj), obj.key, whole_object(obj), **more)
        return await decode_object(raw, type(obj), obj.key)

    async def patch(
        self,
        obj: R,
        *,
        kind: type[Resource] | None = None,
        optimistic_lock: bool = False,
        dry_run: bool = False,
    ) -> R:
        """Send the changes made to the object since it was read; nothing if there are none.

        Concurrent changes of other fields stay. With `optimistic_lock` the patch requires the version that
        was read, and raises Conflict if the object has changed since: use it for a change that depends on the
        rest of the object. A change of finalizers or owner references always requires the version, because
        other clients write these lists too. Raises Conflict also if another object of the same name has
        replaced the object. The patch leaves out the status: see `status`. Raises ValueError for an object
        that was not read from the API server.

        `kind` is required for an object that was read as metadata only. The patch can then change labels,
        annotations, finalizers and owner references, and returns the metadata.
        """
        if obj.origin is None:
            raise ValueError(
                f"{obj.kind} {obj.key} was not read from the API server: use create() or apply()"
            )
        kind, key = kind or type(obj), obj.key
        # Defaults of the model are no change, even where the server does not store them.
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
            raw = await self._send("PATCH", kind, key, changes, **booked)
        except Invalid as error:
            if any(cause.get("field") == "metadata.uid" for cause in error.details.get("causes", ())):
                message = f"{kind.gvk.kind} {key} was replaced by another one"
                raise Conflict(409, "Conflict", message) from error
            raise
        return await decode_object(metadata_of(raw, kind.gvk) if is_partial else raw, type(obj), key)

    async def correct(self, obj: R) -> Applied[R]:
        """Write changed metadata of an object that was not applied; the outcome is as for `apply`.

        For objects that a program creates, and later only labels or gives another owner. The outcome is
        RESTORED if another client had set or removed the changed metadata. Call it also without changes: a
        client that removes a label leaves no trace, so only this call records that the label was there.
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
        raw = await self.uncached.read(kind, key)  # the cache has no entries of other managers
        live, stored = self._ownership(kind, raw), await self.patch(obj)
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
        """Delete this very object (by UID); raises NotFound, or Conflict if it was replaced meanwhile.

        `propagation` says what happens to the objects that it owns. `Background`: the garbage collector
        deletes them afterwards. `Foreground`: it deletes them first, and the object waits. `Orphan`: they
        stay, and lose their owner reference. It replaces the propagation of an earlier delete, if the object
        still waits for finalizers. `kind` is required for an object that was read as metadata only.
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
        """Delete all objects that match, in one request; without a selection, all.

        For `propagation` see `delete`. Cached reads show the deletion only after the watch events, because
        the answer does not say which objects are gone and which have finalizers. Raises ValueError for a
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
        """Delete this very object as `delete` does, but return False if it is gone or replaced."""
        try:
            await self.delete(obj, kind=kind, propagation=propagation)
        except (Conflict, NotFound):
            return False
        return True

    @asynccontextmanager
    async def watch(
        self, kind: type[R], *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> AsyncIterator[LiveList[R]]:
        """Watch all objects that match: yield a list of them after every change; see `LiveList`.

            async with client.watch(Pod, namespace="default", label_selector="app=web") as live:
                async for pods in live: ...

        For programs that look at a few objects for a while: each call opens its own watch. An operator
        declares its watches instead (`owns`, `watches`), and shares them. `namespace=""` means all
        namespaces.

        Raises the server's error for a first, small list: Forbidden, NoMatch, Unreachable and so on. From
        then on the watch recovers from every failure.
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
        """Return the kind of that name, as the API server serves it; raises NoMatch if it does not."""
        mapping = await self._mapper.resolve(GroupVersionKind.from_api_version(api_version, kind))
        return Unstructured.of(api_version, kind, plural=mapping.plural, namespaced=mapping.namespaced)

    def subresource(self, name: str) -> SubresourceClient:
        """Return a client of a subresource other than status, such as `scale`."""
        return SubresourceClient(self._transport, self._mapper, name)


@asynccontextmanager
async def connect(
    field_manager: str,
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> AsyncIterator[Client]:
    """Connect to one cluster, for the length of the context.

        async with connect("my-program") as client:
            pods = await client.uncached.list(Pod, namespace="default")

    It finds the cluster as kubectl does: by the `kubeconfig` file if given, else the files in KUBECONFIG,
    else the pod this runs in, else `~/.kube/config`; in a file it uses `context`, else the current one. It
    sends nothing before the first request.

    No cache runs, so reads are `client.uncached` and `client.watch`; the cached ones raise NotCached.

    Args:
        field_manager: the name of the program, under which its writes are booked; its user agent, too.
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
    # Without a policy, the server uses the kind's default: a Job leaves its pods.
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
    if dry_run:
        options["dryRun"] = ["All"]
    return options


def _patchable(wire: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an object that a patch of the object itself may change."""
    fields = {name: value for name, value in wire.items() if name not in ("apiVersion", "kind", "status")}
    metadata = wire.get("metadata", {})
    fields["metadata"] = {
        # Absent and empty are the same to the server.
        name: metadata[name]
        for name in ("labels", "annotations", "finalizers", "ownerReferences")
        if metadata.get(name)
    }
    return fields
