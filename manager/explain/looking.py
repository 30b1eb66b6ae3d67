"""Reads what an explanation needs: the object, the tree of its children, and Events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from manager import clock
from manager.api import GroupVersionKind, ObjectKey
from manager.api.pod_health import FAILED_SCHEDULING, PodHealth, one_line
from manager.api.shapes import event_time, fields, number, objects, text
from manager.explain.judging import Object, Verdict, conditions_of, judge, wanted_replicas
from manager.kube.decoding import Decoder, json_object
from manager.kube.errors import Forbidden, KubeError, NotFound, ProtocolError
from manager.kube.listing import Listing
from manager.kube.rest_mapping import RestMapper, RestMapping
from manager.kube.transport import Transport
from manager.logs import shortened
from manager.loop import Portions, own_turn
from manager.server.reviews import Place

PATIENCE = 20.0
"""Time limit for everything, in seconds. What is not read by then is listed as missing."""

MOST_OBJECTS = 20_000
"""The most objects of one kind that are read."""

MOST_SHOWN = 10
"""The most children of one kind that are shown. Further ones are counted."""

MOST_READ = 50
"""The most children of one kind that are read one by one. Pods are listed whole, by pages."""

MOST_EVENTS = 20

MOST_LOGS = 3
"""The most logs that are read, for the last line of each."""

MOST_LEVELS = 10
"""The depth of the tree of children: a kind may own its own kind."""

_LONGEST_SELECTOR = 2000
"""The longest label selector, which is a part of the URL; in characters."""

_LONGEST = 2000
"""Characters that are kept of a text."""

_MOST_CONDITIONS = 100

_PAGE = 500
_FIRST_PAGE = 10
"""The size of the first page, when it is not known how large the objects are: each may have 1.5 MB."""

_PAGE_BYTES = 1024 * 1024
"""Bytes that a page should have; the last page's size decides how many objects that is."""

_MOST_BYTES = 64 * 1024 * 1024
"""The most bytes that are read of one kind."""

_NOT_FOUND = 404
_JSON = "application/json"
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

POD = GroupVersionKind("", "v1", "Pod")
CLAIM = GroupVersionKind("", "v1", "PersistentVolumeClaim")
_EVENT = GroupVersionKind("", "v1", "Event")
_REPLICA_SET = GroupVersionKind("apps", "v1", "ReplicaSet")
_JOB = GroupVersionKind("batch", "v1", "Job")

_MADE_OF = {
    "Deployment": (_REPLICA_SET,),
    "ReplicaSet": (POD,),
    "StatefulSet": (POD,),
    "DaemonSet": (POD,),
    "Job": (POD,),
    "CronJob": (_JOB,),
}
"""The children of built-in kinds."""

_JUDGED = {*_MADE_OF, "Pod", "PersistentVolumeClaim"}
"""Kinds whose whole objects are read. Of others only metadata is: a Secret's content never comes here."""


class _Reference(msgspec.Struct):
    uid: str


class _OwnedMeta(msgspec.Struct):
    name: str
    namespace: str = ""
    owners: list[_Reference] | None = msgspec.field(default=None, name="ownerReferences")


class _Owned(msgspec.Struct):
    metadata: _OwnedMeta


_decode_owned = Decoder(_Owned, "an object with metadata")


@dataclass
class Node:
    """An object in the tree."""

    kind: str
    namespace: str
    name: str
    uid: str
    verdict: Verdict
    children: list[Node] = field(default_factory=list)
    fine: dict[str, int] = field(default_factory=dict)
    """By kind, how many more children are ready."""

    bad: dict[str, int] = field(default_factory=dict)
    """By kind, how many more children are not ready."""


class Listed(NamedTuple):
    """A list that was read."""

    gvk: GroupVersionKind
    namespace: str
    path: str
    query: tuple[tuple[str, str], ...]
    """Selectors."""

    @property
    def all_concern(self) -> bool:
        """Whether all objects of the list concern this one, as Events do, which are selected by object."""
        return any(name == "fieldSelector" for name, _ in self.query)


@dataclass
class Found:
    """What was read from the API server."""

    object: Object
    """Its generation and status, as far as they are shown."""

    root: Node
    events: list[Mapping[str, Any]]
    """The last Events, oldest first."""

    missing: list[str]
    """What could not be read, in words."""

    listed: dict[Listed, str]
    """The lists that were read, with their resource versions."""


class _Withheld(KubeError):
    """We may read it, but the user may not."""


async def listed_alone(
    transport: Transport, mapper: RestMapper, gvk: GroupVersionKind, key: ObjectKey
) -> bytes:
    """Read an object by a list with a field selector: a manager may list its kinds, but perhaps not get them.

    Raises NotFound where there is none, and `KubeError`.
    """
    path = (await mapper.resolve(gvk)).path(key.namespace)
    asked = {"fieldSelector": f"metadata.name={key.name}", "limit": "1"}
    for raw in map(bytes, (await Listing(transport.request, path, longest=_MOST_BYTES).page(asked)).items):
        if _decode_owned(raw).metadata.name == key.name:  # a name may look like a selector
            return raw
    raise NotFound(_NOT_FOUND, "NotFound", "it is not in the list")


class Looker:
    """Reads an object and its children, with the rights of the user."""

    def __init__(
        self,
        transport: Transport,
        mapper: RestMapper,
        owned: Mapping[GroupVersionKind, Iterable[GroupVersionKind]],
        *,
        may_get: Callable[[Place], Awaitable[bool]] | None = None,
        known: bytes | None = None,
    ) -> None:
        """`owned` has the kinds of children, by the operators' kinds.

        `may_get` says what the one whom it is told may get, where that is less than what we may. `known` is
        the object itself, where somebody has it already.
        """
        self._known = known
        self._may_get = may_get
        self._transport = transport
        self._mapper = mapper
        self._owned = owned
        self._missing: dict[str, None] = {}
        self._claims: dict[str, Node] = {}
        self._listed: dict[Listed, str] = {}
        self._logs_read = 0
        self._grown: set[str] = set()
        """The UIDs whose children were read: objects may own each other."""

    async def look(self, gvk: GroupVersionKind, key: ObjectKey) -> Found:
        """Read everything. Raises ApiError when the object itself cannot be read."""
        obj = await self._get(gvk, key, self._known)
        root = _node(obj, gvk.kind, key)
        events: list[Mapping[str, Any]] = []
        try:
            async with asyncio.timeout(PATIENCE):
                events = await self._events(root)
                await self._grow(root, obj, gvk, MOST_LEVELS)
        except TimeoutError:
            self._missing[f"what is not found within {PATIENCE:g} s"] = None
        return Found(_said_of_itself(obj), root, events, list(self._missing), self._listed)

    async def _grow(self, node: Node, obj: Object, gvk: GroupVersionKind, levels: int) -> None:
        kinds = self._owned.get(gvk, _MADE_OF.get(gvk.kind, ()))
        if node.uid and node.uid not in self._grown:
            self._grown.add(node.uid)
            if not levels and kinds:
                self._missing[f"what is more than {MOST_LEVELS} levels down"] = None
            for kind in kinds if levels else ():
                await self._add_children(node, obj, kind, levels - 1)
        if gvk.kind == "Pod" and node.verdict.ready is False:
            await self._add_claims(node, obj)
            await self._add_last_line(node, obj)
        if node.verdict.ready is False and not node.children and node.verdict.reason in _VAGUE:
            await self._ask_events(node)

    async def _add_children(self, node: Node, obj: Object, gvk: GroupVersionKind, levels: int) -> None:
        selector = _selector(obj) if gvk in (POD, _REPLICA_SET) else ""
        # In a namespace there may be very many of others, of which few are ours.
        whole = gvk == POD or bool(selector)
        found = 0
        try:
            mapping = await self._resolve(gvk, node.namespace)
            query = (("labelSelector", selector),) if selector else ()
            path = _path(mapping, ObjectKey(node.namespace, ""))
            listed = Listed(gvk, node.namespace, path, query)
            async with aclosing(self._pages(listed, _JSON if whole else _METADATA)) as pages:
                async for raw in pages:
                    if (meta := self._owned_meta(node, gvk, raw)) is None:
                        continue
                    found += 1
                    if not whole and found > MOST_READ:
                        self._missing[f"{gvk.kind}: only the first {MOST_READ} were looked at"] = None
                        return
                    await self._add_child(node, gvk, meta, raw, levels, whole=whole)
        except KubeError as error:
            why = "you may not list them" if isinstance(error, Forbidden) else str(error)
            self._missing[f"{gvk.kind}: {why}"] = None

    def _owned_meta(self, node: Node, gvk: GroupVersionKind, raw: bytes) -> _OwnedMeta | None:
        """The metadata of an object, if the node owns it."""
        try:
            meta = _decode_owned(raw).metadata
        except ProtocolError:
            self._leave_out(gvk)
            return None
        return meta if any(owner.uid == node.uid for owner in meta.owners or ()) else None

    def _leave_out(self, gvk: GroupVersionKind) -> None:
        self._missing[f"{gvk.kind}: what has another shape is left out"] = None

    async def _add_child(
        self, node: Node, gvk: GroupVersionKind, meta: _OwnedMeta, raw: bytes, levels: int, *, whole: bool
    ) -> None:
        key = ObjectKey(meta.namespace or node.namespace, meta.name)
        child: Object
        try:
            if whole or gvk.kind not in _JUDGED:
                child = json_object(raw, f"a {gvk.kind}")
            else:
                child = await self._get(gvk, key)
        except NotFound:
            return  # it went meanwhile
        except ProtocolError:
            self._leave_out(gvk)
            return
        if gvk.kind == "ReplicaSet" and not wanted_replicas(child):
            return  # of an earlier revision
        made = _node(child, gvk.kind, key)
        if made.verdict.ready is not False and gvk == POD:
            node.fine[gvk.kind] = node.fine.get(gvk.kind, 0) + 1
            return
        shown = sum(each.kind == gvk.kind for each in node.children)
        if shown >= MOST_SHOWN:
            counts = node.bad if made.verdict.ready is False else node.fine
            counts[gvk.kind] = counts.get(gvk.kind, 0) + 1
            return
        node.children.append(made)
        await self._grow(made, child, gvk, levels)

    async def _add_claims(self, node: Node, pod: Object) -> None:
        """Add the claims of the pod's volumes: it does not own them, but waits for them."""
        volumes = objects(fields(pod, "spec").get("volumes"))
        names = {text(fields(each, "persistentVolumeClaim").get("claimName")): None for each in volumes}
        names.pop("", None)
        if len(names) > MOST_SHOWN:
            self._missing[f"{CLAIM.kind}: only the first {MOST_SHOWN} of a pod were looked at"] = None
        for name in list(names)[:MOST_SHOWN]:
            claim = self._claims.get(name)
            if claim is None:
                key = ObjectKey(node.namespace, name)
                try:
                    found = await self._get(CLAIM, key)
                except KubeError:
                    continue
                claim = self._claims[name] = _node(found, CLAIM.kind, key)
                if claim.verdict.ready is False:
                    await self._ask_events(claim)
            if claim.verdict.ready is False:
                node.children.append(claim)

    async def _add_last_line(self, node: Node, pod: Object) -> None:
        """Add the last line of the log of a container that ended, if its status has none.

        Only with the rights of our own user: others' right to logs is not known here.
        """
        health = PodHealth.of(pod, clock.now())
        if not health.silent or self._may_get is not None or self._logs_read >= MOST_LOGS:
            return
        self._logs_read += 1
        ended = fields(pod, "status").get("phase") == "Failed"
        query = {"container": health.silent, "tailLines": "1", "limitBytes": f"{_LONGEST}"}
        if not ended:
            query["previous"] = "true"
        try:
            mapping = await self._mapper.resolve(POD)
            path = f"{_path(mapping, ObjectKey(node.namespace, node.name))}/log?{urlencode(query)}"
            line = one_line((await self._transport.request("GET", path)).decode(errors="replace"))
        except KubeError:
            return  # there is no right to it, or no log any more
        if line:
            node.verdict = node.verdict._replace(message=f"{node.verdict.message}: {line}")

    async def _ask_events(self, node: Node) -> None:
        """Take the reason from the last warning Event, if the object itself gives none."""
        for event in reversed(await self._events(node)):
            reason, message = event["reason"], event["message"]
            if node.kind == CLAIM.kind:
                node.verdict = node.verdict._replace(message=f"{reason}: {message}")
                return
            if event["type"] == "Warning" and reason != FAILED_SCHEDULING:
                node.verdict = node.verdict._replace(reason=reason, message=message)
                return

    async def _events(self, node: Node) -> list[Mapping[str, Any]]:
        """The last Events about an object, the oldest first."""
        namespace = node.namespace or "default"
        about = (("fieldSelector", f"involvedObject.uid={node.uid}"),)
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/events"
        items: list[Mapping[str, Any]] = []
        if not node.uid:
            return items
        try:
            await self._check(Place("", "events", namespace))
            async with aclosing(self._pages(Listed(_EVENT, namespace, path, about))) as pages:
                async for raw in pages:
                    try:
                        event = json_object(raw, "an Event")
                    except ProtocolError:
                        self._leave_out(_EVENT)
                    else:
                        items = sorted([*items, _said_by(event)], key=itemgetter("at"))[-MOST_EVENTS:]
        except KubeError as error:
            self._missing[f"Events: {error}"] = None
        return items

    async def _get(self, gvk: GroupVersionKind, key: ObjectKey, raw: bytes | None = None) -> Object:
        mapping = await self._resolve(gvk, key.namespace, key.name)
        if raw is None:
            raw = await self._transport.request("GET", _path(mapping, key))
        await own_turn(len(raw))
        return json_object(raw, f"a {gvk.kind}")

    async def _resolve(self, gvk: GroupVersionKind, namespace: str, name: str = "") -> RestMapping:
        mapping = await self._mapper.resolve(gvk)
        await self._check(Place(gvk.group, mapping.plural, namespace, name))
        return mapping

    async def _check(self, place: Place) -> None:
        if self._may_get is not None and not await self._may_get(place):
            raise _Withheld("you may not get them")

    async def _pages(self, listed: Listed, accept: str = _JSON) -> AsyncGenerator[bytes, None]:
        listing = Listing(self._transport.request, listed.path, accept=accept, longest=_MOST_BYTES)
        limit, seen, size, resume = _FIRST_PAGE, 0, 0, ""
        while True:
            page = await listing.page({**dict(listed.query), "limit": f"{limit}"}, resume)
            if not seen:
                self._listed[listed] = page.version
            portions = Portions()
            for raw in map(bytes, page.items):
                await portions.begin(len(raw))
                yield raw
            await asyncio.sleep(0)  # the time limit is looked at
            seen, size, resume = seen + len(page.items), size + page.size, page.resume
            if not resume:
                return
            if seen >= MOST_OBJECTS or size >= _MOST_BYTES:
                self._missing[f"{listed.gvk.kind}: only the first {seen} were looked at"] = None
                return
            limit = min(_PAGE, 10 * limit, max(1, _PAGE_BYTES * len(page.items) // page.size))


_VAGUE = {"NotEnoughReady", "RollingOut", "Pending", "ContainersNotReady", ""}


def _said_by(event: Object) -> dict[str, Any]:
    """The parts of an Event that are shown. The rest may be large."""
    told = {name: text(event.get(name)) for name in ("type", "reason", "message")}
    told["at"] = event_time(event)
    count = number(fields(event, "series").get("count")) or number(event.get("count")) or 1
    return {**_cut(told), "count": count}


def _said_of_itself(obj: Object) -> Object:
    """The parts of an object that are shown."""
    status = {
        "observedGeneration": number(fields(obj, "status").get("observedGeneration"), -1),
        "conditions": [_cut(each) for each in conditions_of(obj)[:_MOST_CONDITIONS]],
    }
    return {
        "metadata": {"generation": number(fields(obj, "metadata").get("generation"), -1)},
        "status": status,
    }


def _cut(told: Object) -> dict[str, Any]:
    """Shorten long texts."""
    return {name: shortened(said, _LONGEST) if isinstance(said, str) else said for name, said in told.items()}


def _selector(obj: Object) -> str:
    """The label selector of an object's pods; empty if it cannot be written as `name=value` pairs."""
    selector = fields(obj, "spec", "selector")
    labels = fields(selector, "matchLabels")
    if selector.get("matchExpressions") or not all(isinstance(each, str) for each in labels.values()):
        return ""
    said = ",".join(f"{name}={value}" for name, value in labels.items())
    return said if len(said) <= _LONGEST_SELECTOR else ""


def _path(mapping: RestMapping, key: ObjectKey) -> str:
    try:
        return mapping.path(*key)
    except ValueError as error:
        raise NotFound(_NOT_FOUND, "NotFound", str(error)) from None


def _node(obj: Object, kind: str, key: ObjectKey) -> Node:
    """Judge an object, and make its node; `key` is what it was read by."""
    metadata = fields(obj, "metadata")
    ready, *said = judge({**obj, "kind": kind})
    verdict = Verdict(ready, *(shortened(each, _LONGEST) for each in said))
    name = shortened(text(metadata.get("name")) or key.name, _LONGEST)
    return Node(kind, key.namespace, name, text(metadata.get("uid")), verdict)


def bad_leaves(node: Node) -> Sequence[Node]:
    """The nodes that are not ready, and have only ready children. Those with a reason come first.

    Nodes below a ready one do not count, such as pods that were evicted and replaced.
    """
    found: list[Node] = []

    def walk(each: Node) -> bool:
        if each is not node and each.verdict.ready:
            return False
        below = [walk(child) for child in each.children]
        if any(below):
            return True
        if each.verdict.ready is False and each is not node:
            found.append(each)
            return True
        return False

    walk(node)
    return sorted(found, key=lambda each: each.verdict.reason in _VAGUE)


def stuck_pods(node: Node) -> Sequence[Node]:
    """The pods among the bad leaves that say what keeps them from running."""
    return [each for each in bad_leaves(node) if each.kind == "Pod" and each.verdict.reason not in _VAGUE]
