"""Collecting what there is to say of an object: itself, the tree of what it owns, and Events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import orjson

from manager.access.reviews import Place
from manager.api import GroupVersionKind, ObjectKey
from manager.explain.judging import Object, Verdict, conditions_of, judge
from manager.kube.decoding import Decoder, despite_depth, json_object
from manager.kube.errors import ApiError, Forbidden, KubeError, NoMatch, NotFound
from manager.kube.rest_mapping import RestMapper, RestMapping
from manager.kube.transport import LONGEST_LIST, Transport
from manager.logs import shortened
from manager.loop import Portions, own_turn

PATIENCE = 20.0
"""Seconds for all of it. What is not found by then is missing, and said to be."""

MOST_OBJECTS = 20_000
"""Objects of one kind that are looked through."""

MOST_SHOWN = 10
"""Children of one kind that are not as they should be, and are kept. Others are counted."""

MOST_READ = 50
"""Children of one kind that are read one by one; pods come whole, in pages."""

MOST_EVENTS = 20

_LONGEST = 2000
"""Characters of a text that are kept, of whatever somebody has written there."""

_MOST_CONDITIONS = 100

_PAGE = 500
_FIRST_PAGE = 10
"""Objects that are asked for before it is known how large they are: each may have 1.5 MB."""

_PAGE_BYTES = 1024 * 1024
"""What a page should have: the size of the last one says how many objects make it."""

_MOST_BYTES = 64 * 1024 * 1024
"""Of one kind, that are looked through."""

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
"""What the objects of built-in kinds own."""

_JUDGED = {*_MADE_OF, "Pod", "PersistentVolumeClaim"}
"""Kinds of which the whole object is read. Of others only the metadata is: no Secret's content comes here."""


class _Meta(msgspec.Struct):
    resume: str = msgspec.field(default="", name="continue")
    version: str = msgspec.field(default="", name="resourceVersion")


class _List(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    items: list[msgspec.Raw] | None = None


class _Reference(msgspec.Struct):
    uid: str = ""


class _OwnedMeta(msgspec.Struct):
    name: str = ""
    owners: list[_Reference] | None = msgspec.field(default=None, name="ownerReferences")


class _Owned(msgspec.Struct):
    metadata: _OwnedMeta


_decode_list = Decoder(_List, "a list")
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
    """Of each kind, how many more children there are that are as they should be."""

    bad: dict[str, int] = field(default_factory=dict)
    """Of each kind, how many more children there are that are not."""


class Listed(NamedTuple):
    """Objects that were looked through."""

    gvk: GroupVersionKind
    namespace: str
    path: str
    query: tuple[tuple[str, str], ...]
    """Selectors."""

    @property
    def all_concern(self) -> bool:
        """Whether there is nothing among them that is about others: Events are asked for by object."""
        return any(name == "fieldSelector" for name, _ in self.query)


@dataclass
class Found:
    """What the API server knows."""

    object: Object
    """What it says of itself."""

    root: Node
    events: list[Mapping[str, Any]]
    missing: list[str]
    """What could not be found out, in words."""

    listed: dict[Listed, str]
    """What was looked through, and in which version."""


class _Withheld(KubeError):
    """We may read it, and whom we would tell may not."""


async def listed_alone(
    transport: Transport, mapper: RestMapper, gvk: GroupVersionKind, key: ObjectKey
) -> bytes:
    """An object, by a list that has no other: who watches a kind may list it, and perhaps not get from it.

    Raises NotFound where there is none, and `KubeError`.
    """
    path = (await mapper.resolve(gvk)).path(key.namespace)
    asked = {"fieldSelector": f"metadata.name={key.name}", "limit": "1"}
    answer = await transport.request("GET", path, query=asked, longest=LONGEST_LIST)
    await own_turn(len(answer))
    for raw in map(bytes, (await despite_depth(_decode_list, answer)).items or ()):
        if _decode_owned(raw).metadata.name == key.name:  # a name may look like a selector
            return raw
    raise NotFound(404, "NotFound", "it is not in the list")


class Looker:
    """Reads an object and all that it owns, with the rights of who asks."""

    def __init__(
        self,
        transport: Transport,
        mapper: RestMapper,
        owned: Mapping[GroupVersionKind, Iterable[GroupVersionKind]],
        *,
        may_get: Callable[[Place], Awaitable[bool]] | None = None,
        known: bytes | None = None,
    ) -> None:
        """`owned` says for kinds of operators which kinds their objects own.

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

    async def look(self, gvk: GroupVersionKind, key: ObjectKey) -> Found:
        """All of it. Raises ApiError when the object itself cannot be read."""
        obj = await self._get(gvk, key, self._known)
        root = _node(obj, gvk.kind)
        events: list[Mapping[str, Any]] = []
        try:
            async with asyncio.timeout(PATIENCE):
                events = await self._events(root)
                await self._grow(root, obj, gvk)
        except TimeoutError:
            self._missing[f"what is not found within {PATIENCE:g} s"] = None
        return Found(_said_of_itself(obj), root, events, list(self._missing), self._listed)

    async def _grow(self, node: Node, obj: Object, gvk: GroupVersionKind) -> None:
        for kind in self._owned.get(gvk, _MADE_OF.get(gvk.kind, ())):
            await self._add_children(node, obj, kind)
        if gvk.kind == "Pod" and node.verdict.ready is False:
            await self._add_claims(node, obj)
        if node.verdict.ready is False and not node.children and node.verdict.reason in _VAGUE:
            await self._ask_events(node)

    async def _add_children(self, node: Node, obj: Object, gvk: GroupVersionKind) -> None:
        selector = _selector(obj) if gvk in (POD, _REPLICA_SET) else ""
        # In a namespace there may be very many of others, of which few are ours.
        whole = gvk == POD or bool(selector)
        found = 0
        try:
            mapping = await self._resolve(gvk, node.namespace)
            query = (("labelSelector", selector),) if selector else ()
            listed = Listed(gvk, node.namespace, mapping.path(node.namespace), query)
            async for raw in self._pages(listed, _JSON if whole else _METADATA):
                owners = _decode_owned(raw).metadata.owners or ()
                if not any(owner.uid == node.uid for owner in owners):
                    continue
                found += 1
                if not whole and found > MOST_READ:
                    self._missing[f"{gvk.kind}: only the first {MOST_READ} were looked at"] = None
                    return
                child: Object = orjson.loads(raw)
                if not whole and gvk.kind in _JUDGED:
                    child = await self._get(gvk, ObjectKey(node.namespace, child["metadata"]["name"]))
                await self._add_child(node, child, gvk)
        except (ApiError, NoMatch, _Withheld) as error:
            why = "you may not list them" if isinstance(error, Forbidden) else str(error)
            self._missing[f"{gvk.kind}: {why}"] = None

    async def _add_child(self, node: Node, child: Object, gvk: GroupVersionKind) -> None:
        if gvk.kind == "ReplicaSet" and not child.get("spec", {}).get("replicas", 1):
            return  # of an earlier revision
        made = _node(child, gvk.kind)
        if made.verdict.ready is not False and gvk == POD:
            node.fine[gvk.kind] = node.fine.get(gvk.kind, 0) + 1
            return
        shown = sum(each.kind == gvk.kind for each in node.children)
        if shown >= MOST_SHOWN:
            counts = node.bad if made.verdict.ready is False else node.fine
            counts[gvk.kind] = counts.get(gvk.kind, 0) + 1
            return
        node.children.append(made)
        await self._grow(made, child, gvk)

    async def _add_claims(self, node: Node, pod: Object) -> None:
        """What the pod's volumes are to be: nobody owns these, and a pod waits for them."""
        for volume in pod.get("spec", {}).get("volumes") or ():
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if not name:
                continue
            claim = self._claims.get(name)
            if claim is None:
                try:
                    found = await self._get(CLAIM, ObjectKey(node.namespace, name))
                except KubeError:
                    continue
                claim = self._claims[name] = _node(found, CLAIM.kind)
                if claim.verdict.ready is False:
                    await self._ask_events(claim)
            if claim.verdict.ready is False:
                node.children.append(claim)

    async def _ask_events(self, node: Node) -> None:
        """Where the object does not say what it waits for, its last warning may."""
        for event in reversed(await self._events(node)):
            if event.get("type") == "Warning" or node.kind == CLAIM.kind:
                reason, message = str(event.get("reason", "")), str(event.get("message", ""))
                ready, said, _ = node.verdict
                node.verdict = Verdict(
                    ready, said if node.kind == CLAIM.kind else reason, f"{reason}: {message}"
                )
                return

    async def _events(self, node: Node) -> list[Mapping[str, Any]]:
        """The last Events about an object, the oldest first."""
        namespace = node.namespace or "default"
        about = (("fieldSelector", f"involvedObject.uid={node.uid}"),)
        listed = Listed(_EVENT, namespace, f"/api/v1/namespaces/{namespace}/events", about)
        items: list[Mapping[str, Any]] = []
        try:
            await self._check(Place("", "events", namespace))
            async for raw in self._pages(listed):
                items = sorted([*items, _said_by(orjson.loads(raw))], key=event_time)[-MOST_EVENTS:]
        except (ApiError, _Withheld) as error:
            self._missing[f"Events: {error}"] = None
        return items

    async def _get(self, gvk: GroupVersionKind, key: ObjectKey, raw: bytes | None = None) -> Object:
        mapping = await self._resolve(gvk, key.namespace, key.name)
        if raw is None:
            raw = await self._transport.request("GET", mapping.path(key.namespace, key.name))
        await own_turn(len(raw))
        return json_object(raw, f"a {gvk.kind}")

    async def _resolve(self, gvk: GroupVersionKind, namespace: str, name: str = "") -> RestMapping:
        mapping = await self._mapper.resolve(gvk)
        await self._check(Place(gvk.group, mapping.plural, namespace, name))
        return mapping

    async def _check(self, place: Place) -> None:
        if self._may_get is not None and not await self._may_get(place):
            raise _Withheld("you may not get them")

    async def _pages(self, listed: Listed, accept: str = _JSON) -> AsyncIterator[bytes]:
        limit, seen, size, resume = _FIRST_PAGE, 0, 0, ""
        while True:
            asked = {**dict(listed.query), "limit": f"{limit}", **({"continue": resume} if resume else {})}
            answer = await self._transport.request(
                "GET", listed.path, query=asked, accept=accept, longest=LONGEST_LIST
            )
            await own_turn(len(answer))
            page = await despite_depth(_decode_list, answer)
            if not seen:
                self._listed[listed] = page.metadata.version
            items, resume, portions = page.items or [], page.metadata.resume, Portions()
            for raw in map(bytes, items):
                await portions.begin(len(raw))
                yield raw
            await asyncio.sleep(0)  # the time limit is looked at
            seen, size = seen + len(items), size + len(answer)
            if not resume:
                return
            if seen >= MOST_OBJECTS or size >= _MOST_BYTES:
                self._missing[f"{listed.gvk.kind}: only the first {seen} were looked at"] = None
                return
            limit = min(_PAGE, 10 * limit, max(1, _PAGE_BYTES * len(items) // len(answer)))


_VAGUE = {"NotEnoughReady", "Pending", "ContainersNotReady", ""}


def _said_by(event: Object) -> dict[str, Any]:
    """Of an Event what is shown. The rest of it may be very much."""
    return {
        **_cut(event, "type", "reason", "message", "count", "lastTimestamp", "eventTime"),
        "series": _cut(event.get("series"), "count", "lastObservedTime"),
        "metadata": _cut(event.get("metadata"), "creationTimestamp"),
    }


def _said_of_itself(obj: Object) -> Object:
    """Of an object what is shown."""
    told = ("type", "status", "reason", "message", "lastTransitionTime", "observedGeneration")
    conditions = [_cut(each, *told) for each in conditions_of(obj)[:_MOST_CONDITIONS]]
    status = {**_cut(obj.get("status"), "observedGeneration"), "conditions": conditions}
    return {"metadata": _cut(obj.get("metadata"), "generation"), "status": status}


def _cut(found: Any, *names: str) -> dict[str, Any]:
    """Those fields that are texts, numbers or the like."""
    kept = {name: found[name] for name in names if name in found} if isinstance(found, dict) else {}
    return {
        name: shortened(value, _LONGEST) if isinstance(value, str) else value
        for name, value in kept.items()
        if not isinstance(value, dict | list)
    }


def event_time(event: Mapping[str, Any]) -> str:
    """When it was last seen."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((each for each in times if each), event.get("metadata", {}).get("creationTimestamp") or "")


def _selector(obj: Object) -> str:
    """The labels of the pods that an object has, as a query says it; empty where it cannot be told."""
    selector = obj.get("spec", {}).get("selector")
    labels = selector.get("matchLabels") if isinstance(selector, dict) else None
    if not isinstance(labels, dict) or selector.get("matchExpressions"):
        return ""
    return ",".join(f"{name}={value}" for name, value in labels.items())


def _node(obj: Object, kind: str) -> Node:
    metadata = obj.get("metadata", {})
    ready, *said = judge({"kind": kind, **{name: value for name, value in obj.items() if name != "kind"}})
    verdict = Verdict(ready, *(shortened(str(each or ""), _LONGEST) for each in said))
    return Node(
        kind, metadata.get("namespace", ""), metadata.get("name", ""), metadata.get("uid", ""), verdict
    )


def bad_leaves(node: Node) -> Sequence[Node]:
    """What is not as it should be, and has nothing below it that is not; those first that say why."""
    found: list[Node] = []

    def walk(each: Node) -> bool:
        below = [walk(child) for child in each.children]
        if any(below):
            return True
        if each.verdict.ready is False and each is not node:
            found.append(each)
            return True
        return False

    walk(node)
    return sorted(found, key=lambda each: each.verdict.reason in _VAGUE)
