"""Collection of the data for an explanation: the object, the tree of its children, and Events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from manager.api import GroupVersionKind, ObjectKey
from manager.api.resource import event_time, fields, number, objects, text
from manager.cache import Informer
from manager.kube.decoding import Decoder, Listing, json_object
from manager.kube.errors import Forbidden, KubeError, NotFound, ProtocolError
from manager.kube.rest_mapping import RestMapper, RestMapping
from manager.kube.transport import Transport
from manager.server.access import Place
from manager.telemetry.logs import shortened
from manager.util import clock
from manager.util.loop import Portions, own_turn
from manager_console.diagnosis.readiness import Object, conditions_of, judge, wanted_replicas
from manager_kinds.pod_health import FAILED_SCHEDULING, PodHealth, one_line

T = TypeVar("T")

PATIENCE = 20.0
"""The time limit for children and Events, in seconds. Data not read by then is reported as missing."""

MOST_OBJECTS = 20_000
"""The maximum number of objects of one kind that are read."""

MOST_SHOWN = 10
"""The maximum number of shown children of one kind. Further ones are only counted."""

MOST_READ = 50
"""The maximum number of children of one kind that are read one by one. Pods are listed, by pages."""

MOST_EVENTS = 20

MOST_LOGS = 3
"""The maximum number of logs of which the last line is read."""

MOST_LEVELS = 10
"""The maximum depth of the tree of children: a kind may own its own kind."""

_LONGEST_SELECTOR = 2000
"""The maximum length of a label selector, in characters, because it is a part of the URL."""

_LONGEST = 2000
"""The maximum number of characters that are kept of a text."""

_MOST_CONDITIONS = 100

_PAGE, _FIRST_PAGE = 500, 10
"""The maximum number of objects in a page, and in the first page: each object may have 1.5 MB."""

_PAGE_BYTES, _MOST_BYTES = 1024 * 1024, 64 * 1024 * 1024
"""The desired size of a page in bytes, and the maximum number of bytes that are read of one kind."""

_NOT_FOUND = 404
_JSON = "application/json"
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

POD = GroupVersionKind("", "v1", "Pod")
CLAIM = GroupVersionKind("", "v1", "PersistentVolumeClaim")
_EVENT = GroupVersionKind("", "v1", "Event")
_REPLICA_SET = GroupVersionKind("apps", "v1", "ReplicaSet")

_MADE_OF = {
    "Deployment": (_REPLICA_SET,),
    **dict.fromkeys(("ReplicaSet", "StatefulSet", "DaemonSet", "Job"), (POD,)),
    "CronJob": (GroupVersionKind("batch", "v1", "Job"),),
}
"""The child kinds of built-in kinds."""

_JUDGED = {*_MADE_OF, "Pod", "PersistentVolumeClaim"}
"""Kinds whose whole objects are read. Of others, such as Secrets, only the metadata are read."""

_VAGUE = {"NotEnoughReady", "RollingOut", "Pending", "ContainersNotReady", ""}
"""Reasons that only repeat that the object is not ready."""


class _Reference(msgspec.Struct):
    uid: str


class _OwnedMeta(msgspec.Struct):
    name: str
    namespace: str = ""
    owners: list[_Reference] | None = msgspec.field(default=None, name="ownerReferences")


class _Owned(msgspec.Struct):
    metadata: _OwnedMeta


_decode_owned = Decoder(_Owned, "an object with metadata")


class Counts(msgspec.Struct):
    """The numbers of children that an explanation counts without showing them, by kind."""

    ready: dict[str, int] = {}
    not_ready: dict[str, int] = {}


class Node(msgspec.Struct):
    """An object in the tree of an explanation, with its readiness and its children."""

    kind: str
    namespace: str
    name: str
    uid: str
    ready: bool | None
    """Whether the object is ready; None if its status does not show it."""

    reason: str = ""
    message: str = ""
    resource: str = ""
    """The resource, such as `deployments.apps`."""

    children: list[Node] = []
    more: Counts = msgspec.field(default_factory=Counts)


@dataclass
class Collected:
    """The state of an object and its children at the time of reading."""

    object: Object
    """The object's generation and status, in the parts that are shown."""

    root: Node
    events: list[Mapping[str, Any]]
    """The last Events, oldest first."""

    missing: list[str]
    """Descriptions of data that could not be read."""


class _Withheld(KubeError):
    """An error: the manager may read an object, but the user may not."""


class Collector:
    """A reader of an object and its children, with the rights of the user."""

    def __init__(
        self,
        transport: Transport,
        mapper: RestMapper,
        owned: Mapping[GroupVersionKind, Iterable[GroupVersionKind]],
        *,
        may_get: Callable[[Place], Awaitable[bool]] | None = None,
        informers: Iterable[Informer] | None = None,
    ) -> None:
        """Create a collector; a manager passes its `informers`.

        A manager reads an object from its informers first, and then from a list, because it may lack the
        right to get the object. `owned` has the kinds of children of each operator's kind. `may_get` is
        needed if the reader has fewer rights than `transport`.
        """
        self._may_get = may_get
        self._informers = informers
        self._transport = transport
        self._mapper = mapper
        self._owned = owned
        self._missing: dict[str, None] = {}
        self._claims: dict[str, Node] = {}
        self._logs_read = 0
        self._grown: set[str] = set()
        """The UIDs whose children were read: objects may own each other."""

    async def collect(self, gvk: GroupVersionKind, key: ObjectKey) -> Collected:
        """Read the object, its children and Events. Raises `KubeError` if the object cannot be read."""
        obj, root = await self._read_node(gvk, key)
        events: list[Mapping[str, Any]] = []
        try:
            async with asyncio.timeout(PATIENCE):
                events = await self._events(root)
                await self._grow(root, obj, gvk, MOST_LEVELS)
        except TimeoutError:
            self._miss(f"objects that were not read within {PATIENCE:g} s")
        return Collected(_shown_parts(obj), root, events, list(self._missing))

    async def read(self, gvk: GroupVersionKind, key: ObjectKey) -> bytes:
        """Read an object. Raises `NotFound` if it does not exist, and `KubeError`."""
        path = object_path(await self._resolve(gvk, key.namespace, key.name), key)
        raw = self._cached(gvk, key)
        if raw is None and self._informers is not None:
            with suppress(Forbidden):
                raw = await self._read_by_list(path.rpartition("/")[0], key.name)
        if raw is None:
            raw = await self._transport.request("GET", path)
        await own_turn(len(raw))
        return raw

    async def _read_node(self, gvk: GroupVersionKind, key: ObjectKey) -> tuple[Object, Node]:
        obj = json_object(await self.read(gvk, key), f"a {gvk.kind}")
        return obj, _node(obj, await self._mapper.resolve(gvk), key)

    async def _read_by_list(self, path: str, name: str) -> bytes:
        query = {"fieldSelector": f"metadata.name={name}", "limit": "1"}
        page = await Listing(self._transport.request, path, longest=_MOST_BYTES).page(query)
        for raw in map(bytes, page.items):
            if _decode_owned(raw).metadata.name == name:  # a name may look like a selector
                return raw
        raise NotFound(_NOT_FOUND, "NotFound", "it is not in the list")

    def _cached(self, gvk: GroupVersionKind, key: ObjectKey) -> bytes | None:
        """Return an object from a cache, or None; raise NotFound if a complete cache of its kind lacks it."""
        caches = [
            each for each in self._informers or () if each.spec.gvk == gvk and each.spec.projection == "full"
        ]
        for informer in caches:
            if (record := informer.get(key)) is not None:
                return None if record.is_cut else record.raw
        if any(each.has_all_of(key.namespace) for each in caches):
            raise NotFound(_NOT_FOUND, "NotFound", "it is not in the cache")
        return None

    def _miss(self, what: str) -> None:
        self._missing[what] = None

    async def _grow(self, node: Node, obj: Object, gvk: GroupVersionKind, levels: int) -> None:
        kinds = self._owned.get(gvk, _MADE_OF.get(gvk.kind, ()))
        if node.uid and node.uid not in self._grown:
            self._grown.add(node.uid)
            if not levels and kinds:
                self._miss(f"objects below {MOST_LEVELS} levels")
            for kind in kinds if levels else ():
                await self._add_children(node, obj, kind, levels - 1)
        if gvk.kind == "Pod" and node.ready is False:
            await self._add_claims(node, obj)
            await self._add_last_line(node, obj)
        if node.ready is False and not node.children and node.reason in _VAGUE:
            await self._ask_events(node)

    async def _add_children(self, node: Node, obj: Object, gvk: GroupVersionKind, levels: int) -> None:
        selector = _selector(obj) if gvk in (POD, _REPLICA_SET) else ""
        # A namespace may have very many objects of others, and few of ours.
        whole = gvk == POD or bool(selector)
        found = 0
        try:
            mapping = await self._resolve(gvk, node.namespace)
            query = {"labelSelector": selector} if selector else {}
            path = object_path(mapping, ObjectKey(node.namespace, ""))
            listed = self._items(gvk, path, query, _decode_owned, _JSON if whole else _METADATA)
            async with aclosing(listed) as items:
                async for raw, owned in items:
                    if all(owner.uid != node.uid for owner in owned.metadata.owners or ()):
                        continue
                    found += 1
                    if not whole and found > MOST_READ:
                        self._miss(f"{gvk.kind}: only the first {MOST_READ} were read")
                        return
                    await self._add_child(node, mapping, owned.metadata, raw, levels, whole=whole)
        except KubeError as error:
            why = "you may not list them" if isinstance(error, Forbidden) else str(error)
            self._miss(f"{gvk.kind}: {why}")

    async def _add_child(
        self, node: Node, mapping: RestMapping, meta: _OwnedMeta, raw: bytes, levels: int, *, whole: bool
    ) -> None:
        gvk, key = mapping.gvk, ObjectKey(meta.namespace or node.namespace, meta.name)
        try:
            if whole or gvk.kind not in _JUDGED:
                child: Object = json_object(raw, f"a {gvk.kind}")
                made = _node(child, mapping, key)
            else:
                child, made = await self._read_node(gvk, key)
        except NotFound:
            return  # deleted meanwhile
        except ProtocolError:
            self._leave_out(gvk)
            return
        if gvk.kind == "ReplicaSet" and not wanted_replicas(child):
            return  # from an earlier revision
        ready = made.ready is not False
        shown = sum(each.kind == gvk.kind for each in node.children)
        if (ready and gvk == POD) or shown >= MOST_SHOWN:
            counts = node.more.ready if ready else node.more.not_ready
            counts[gvk.kind] = counts.get(gvk.kind, 0) + 1
            return
        node.children.append(made)
        await self._grow(made, child, gvk, levels)

    async def _add_claims(self, node: Node, pod: Object) -> None:
        volumes = objects(fields(pod, "spec").get("volumes"))
        names = {text(fields(each, "persistentVolumeClaim").get("claimName")): None for each in volumes}
        names.pop("", None)
        if len(names) > MOST_SHOWN:
            self._miss(f"{CLAIM.kind}: only the first {MOST_SHOWN} of a pod were read")
        for name in list(names)[:MOST_SHOWN]:
            if name not in self._claims:
                try:
                    _, self._claims[name] = await self._read_node(CLAIM, ObjectKey(node.namespace, name))
                except KubeError:
                    continue
                if self._claims[name].ready is False:
                    await self._ask_events(self._claims[name])
            if self._claims[name].ready is False:
                node.children.append(self._claims[name])

    async def _add_last_line(self, node: Node, pod: Object) -> None:
        """Add the last log line of a terminated container, if its status has no message.

        Do nothing if the collector has a `may_get`: this method does not check the user's right to read logs.
        A local console has none, and reads logs with the manager's rights.
        """
        health = PodHealth.of(pod, clock.now())
        if not health.silent or self._may_get is not None or self._logs_read >= MOST_LOGS:
            return
        self._logs_read += 1
        query = {"container": health.silent, "tailLines": "1", "limitBytes": f"{_LONGEST}"}
        if fields(pod, "status").get("phase") != "Failed":
            query["previous"] = "true"
        with suppress(KubeError):  # the right is missing, or the log is gone
            path = object_path(await self._mapper.resolve(POD), ObjectKey(node.namespace, node.name))
            log = await self._transport.request("GET", f"{path}/log?{urlencode(query)}")
            if line := one_line(log.decode(errors="replace")):
                node.message = f"{node.message}: {line}"

    async def _ask_events(self, node: Node) -> None:
        """Take the reason from the last warning Event or, for a claim, the message from the last Event."""
        for event in reversed(await self._events(node)):
            reason, message = event["reason"], event["message"]
            if node.kind == CLAIM.kind:
                node.message = f"{reason}: {message}"
                return
            if event["type"] == "Warning" and reason != FAILED_SCHEDULING:
                node.reason, node.message = reason, message
                return

    async def _events(self, node: Node) -> list[Mapping[str, Any]]:
        namespace, last = node.namespace or "default", list[Mapping[str, Any]]()
        if not node.uid:
            return last
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/events"
        query = {"fieldSelector": f"involvedObject.uid={node.uid}"}
        try:
            await self._check(Place("", "events", namespace))
            listed = self._items(_EVENT, path, query, lambda raw: _event_parts(json_object(raw, "an Event")))
            async with aclosing(listed) as items:
                async for _, event in items:
                    last = sorted([*last, event], key=itemgetter("at"))[-MOST_EVENTS:]
        except KubeError as error:
            self._miss(f"Events: {error}")
        return last

    async def _resolve(self, gvk: GroupVersionKind, namespace: str, name: str = "") -> RestMapping:
        mapping = await self._mapper.resolve(gvk)
        await self._check(Place(gvk.group, mapping.plural, namespace, name))
        return mapping

    async def _check(self, place: Place) -> None:
        if self._may_get is not None and not await self._may_get(place):
            raise _Withheld("you may not get them")

    async def _items(
        self,
        gvk: GroupVersionKind,
        path: str,
        query: Mapping[str, str],
        decode: Callable[[bytes], T],
        accept: str = _JSON,
    ) -> AsyncGenerator[tuple[bytes, T], None]:
        listing = Listing(self._transport.request, path, accept=accept, longest=_MOST_BYTES)
        limit, seen, size, resume = _FIRST_PAGE, 0, 0, ""
        while True:
            page = await listing.page({**query, "limit": f"{limit}"}, resume)
            portions = Portions()
            for raw in map(bytes, page.items):
                await portions.begin(len(raw))
                try:
                    decoded = decode(raw)
                except ProtocolError:
                    self._leave_out(gvk)
                    continue
                yield raw, decoded
            await asyncio.sleep(0)  # check the time limit
            seen, size, resume = seen + len(page.items), size + page.size, page.resume
            if not resume:
                return
            if seen >= MOST_OBJECTS or size >= _MOST_BYTES:
                self._miss(f"{gvk.kind}: only the first {seen} were read")
                return
            limit = min(_PAGE, 10 * limit, max(1, _PAGE_BYTES * len(page.items) // page.size))

    def _leave_out(self, gvk: GroupVersionKind) -> None:
        self._miss(f"{gvk.kind}: invalid items are left out")


def _event_parts(event: Object) -> dict[str, Any]:
    told = {name: text(event.get(name)) for name in ("type", "reason", "message")}
    count = number(fields(event, "series").get("count")) or number(event.get("count")) or 1
    return {**_cut({**told, "at": event_time(event)}), "count": count}


def _shown_parts(obj: Object) -> Object:
    return {
        "metadata": {"generation": number(fields(obj, "metadata").get("generation"), -1)},
        "status": {
            "observedGeneration": number(fields(obj, "status").get("observedGeneration"), -1),
            "conditions": [_cut(each) for each in conditions_of(obj)[:_MOST_CONDITIONS]],
        },
    }


def _cut(told: Object) -> dict[str, Any]:
    return {name: shortened(said, _LONGEST) if isinstance(said, str) else said for name, said in told.items()}


def _selector(obj: Object) -> str:
    """Return a workload's label selector for its pods as text; "" if it is too long or has expressions."""
    selector = fields(obj, "spec", "selector")
    labels = fields(selector, "matchLabels")
    if selector.get("matchExpressions") or not all(isinstance(each, str) for each in labels.values()):
        return ""
    said = ",".join(f"{name}={value}" for name, value in labels.items())
    return said if len(said) <= _LONGEST_SELECTOR else ""


def resource_name(mapping: RestMapping) -> str:
    """Return a resource such as `deployments.apps`, or `pods` of the core group."""
    return f"{mapping.plural}.{mapping.gvk.group}".rstrip(".")


def kinds_of(
    owned: Mapping[GroupVersionKind, Iterable[GroupVersionKind]],
) -> Iterable[GroupVersionKind]:
    """Return the kinds in all trees: the operators' kinds and the kinds that these own, without Secrets."""
    found = dict.fromkeys((*owned, CLAIM))
    pending = [each for kinds in owned.values() for each in kinds]
    while pending:
        kind = pending.pop()
        if kind not in found and (kind.group, kind.kind) != ("", "Secret"):
            found[kind] = None
            pending += _MADE_OF.get(kind.kind, ())
    return found


def object_path(mapping: RestMapping, key: ObjectKey) -> str:
    """Return the path of an object. Raises NotFound for an invalid name or namespace."""
    try:
        return mapping.path(*key)
    except ValueError as error:
        raise NotFound(_NOT_FOUND, "NotFound", str(error)) from None


def _node(obj: Object, mapping: RestMapping, key: ObjectKey) -> Node:
    metadata, kind = fields(obj, "metadata"), mapping.gvk.kind
    ready, reason, message = judge({**obj, "kind": kind})
    name, reason, message = (
        shortened(each, _LONGEST) for each in (text(metadata.get("name")) or key.name, reason, message)
    )
    uid, resource = text(metadata.get("uid")), resource_name(mapping)
    return Node(kind, key.namespace, name, uid, ready, reason, message, resource)


def bad_leaves(node: Node) -> Sequence[Node]:
    """Return the nodes under `node` that are not ready, and have none such below; clear reasons come first.

    Nodes below a ready node are ignored, such as pods that were evicted and replaced.
    """
    found: list[Node] = []

    def walk(each: Node) -> bool:
        if each is not node and each.ready:
            return False
        below = [walk(child) for child in each.children]
        if not any(below) and each.ready is False and each is not node:
            found.append(each)
            return True
        return any(below)

    walk(node)
    return sorted(found, key=lambda each: each.reason in _VAGUE)


def stuck_pods(node: Node) -> Sequence[Node]:
    """Return the pods among `bad_leaves` that report why they do not run."""
    return [each for each in bad_leaves(node) if each.kind == "Pod" and each.reason not in _VAGUE]
