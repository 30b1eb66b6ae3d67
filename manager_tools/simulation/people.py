"""People, who do to a cluster what people do."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import orjson

from devcluster import DevCluster
from devcluster.access.authentication import ADMIN
from devcluster.api.local import LocalClient
from devcluster.controllers.images import ImageReference, InvalidImageName
from devcluster.errors import StatusError
from devcluster.http_call import ApiRequest
from manager.operator import AnyOperator, Owns
from manager_tools.simulation.comparing import EVICT, controller_of, owned_resources, resource_of
from manager_tools.simulation.control_plane import ControlPlane
from manager_tools.simulation.workload import NAMES, NAMESPACES, Step, changed, drawn

Object = dict[str, Any]

_ATTEMPTS = 6
"""How often somebody tries to write a spec that the API server takes."""

_SAMPLES = 0.5
"""The part of new objects that begins as a sample, where there are any."""

_REPLACED = 0.5
"""The part of names taken that belonged to something that an operator had made."""

_MARK = "spoilt"
"""A label and an annotation of theirs."""

_SPOILT: tuple[Object, ...] = (
    {"metadata": {"labels": None}},
    {"metadata": {"ownerReferences": None}},
    {"spec": {"replicas": 0}},
    {"metadata": {"labels": {_MARK: "yes"}}},
)

_APPLIED: tuple[Object, ...] = (
    {"metadata": {"labels": {_MARK: "by-somebody"}}},
    {"metadata": {"annotations": {_MARK: "by another manager"}}},
    {"spec": {"replicas": 0}},
)
"""What another field manager applies to what it does not own."""

_HELD = "people.simulated/hold"
"""Their finalizer, which keeps what is deleted until they take it away."""

_EITHER = 0.5

_TAKERS: dict[str, Object] = {
    "ConfigMap": {"data": {"somebody": "else's"}},
    "Secret": {"data": {}},
    "Service": {"spec": {"ports": [{"port": 80}], "selector": {"app": "other"}}},
    "Deployment": {
        "spec": {
            "selector": {"matchLabels": {"app": "other"}},
            "template": {
                "metadata": {"labels": {"app": "other"}},
                "spec": {"containers": [{"name": "other", "image": "other"}]},
            },
        }
    },
}
"""Others' objects whose names may be in the way."""


class People:
    """Simulated users; each of their steps has its own seed, so that others can be omitted."""

    def __init__(
        self, plane: ControlPlane, operators: Sequence[AnyOperator], samples: Mapping[str, Sequence[Object]]
    ) -> None:
        """Create users; half of the objects that they create come from `samples`, specs by `Kind.group`."""
        self.accepted: Counter[str] = Counter()
        """How many objects of each resource were taken."""
        self._samples = samples
        self._plane = plane
        self._operators = operators
        self._schemas = [_spec_schema(plane.cluster, operator) for operator in operators]
        self._owned = owned_resources(operators)
        self._own = [resource_of(each.kind) for each in operators]
        self._resources = dict.fromkeys([*self._own, *self._owned])

    @property
    def _client(self) -> LocalClient:
        return self._plane.client

    async def act(self, step: Step) -> str:
        """Do it, and say what was done."""
        rng = random.Random(step.draw)
        kind = self._operators[step.kind].kind
        resource, name = resource_of(kind), f"{rng.choice(NAMES)}-{step.kind}"
        namespace = rng.choice(NAMESPACES) if kind.namespaced else ""
        where = f"{resource} {namespace}/{name}"
        acts: dict[str, Callable[..., Awaitable[str | None]]] = {
            "create": self._create,
            "change": self._change,
            "delete": self._delete,
            "orphan": self._orphan,
            "annotate": self._annotate,
            "empty status": self._empty_status,
            "hold": self._hold,
            "let go": self._release_any,
            "apply": self._apply,
            "take name": self._take_name,
            "free name": self._free_name,
            "spoil child": self._spoil_child,
            "relabel child": self._relabel_child,
            "apply child": self._apply_child,
            "delete child": self._delete_child,
            "evict pod": self._evict_pod,
            "delete namespace": self._delete_namespace,
        }
        try:
            more = await acts[step.act](step.kind, resource, namespace, name, rng)
        except StatusError as error:
            more = f"-> {error.code} {error.reason}"
        return f"{step.act}: {where} {more or ''}"

    async def _create(self, number: int, resource: str, namespace: str, name: str, rng: random.Random) -> str:
        schema, gvk = self._schemas[number], self._operators[number].kind.gvk
        samples = self._samples.get(f"{gvk.kind}.{gvk.group}")
        for _ in range(_ATTEMPTS):
            obj: Object = {"metadata": {"name": name}}
            if schema is not None:
                obj["spec"] = drawn(schema, rng)
            if samples and rng.random() < _SAMPLES:
                obj["spec"] = rng.choice(samples)
            try:
                await self._client.create(resource, namespace, obj)
            except StatusError as error:
                if error.code != HTTPStatus.UNPROCESSABLE_ENTITY:
                    raise
            else:
                self.accepted[resource] += 1
                return _shown(obj.get("spec"))
        return "-> nothing that is valid"

    async def _change(
        self, number: int, resource: str, namespace: str, name: str, rng: random.Random
    ) -> str | None:
        live, schema = self._client.peek(resource, namespace, name), self._schemas[number]
        if live is None or schema is None:
            return None
        patch = changed(live.get("spec") or {}, schema, rng)
        await self._client.patch(resource, namespace, name, {"spec": patch})
        return _shown(patch)

    async def _apply(
        self, number: int, resource: str, namespace: str, name: str, rng: random.Random
    ) -> str | None:
        """Another field manager's, by force; the object is made if there is none."""
        schema = self._schemas[number]
        if schema is None:
            return None
        live = self._client.peek(resource, namespace, name) or {}
        patch = changed(live.get("spec") or {}, schema, rng)
        spec = {field: value for field, value in patch.items() if value is not None}
        return await self._apply_over(resource, namespace, name, {"spec": spec})

    async def _apply_child(self, _: int, *where: Any) -> str | None:
        if (child := self._child(where[-1])) is None:
            return None
        return " ".join(child) + await self._apply_over(*child, where[-1].choice(_APPLIED))

    async def _apply_over(self, resource: str, namespace: str, name: str, fields: Object) -> str:
        """Apply fields by force under another field manager."""
        served = self._client._resource(resource)
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        body = {"apiVersion": served.api_version, "kind": served.kind, **fields}
        body["metadata"] = {**fields.get("metadata", {}), **metadata}
        answer = await self._plane.cluster.handle(
            ApiRequest(
                method="PATCH",
                path=f"{served.paths[-1].format(namespace=namespace)}/{name}",
                query={"fieldManager": ["somebody"], "force": ["true"]},
                headers={"content-type": "application/apply-patch+yaml"},
                body=orjson.dumps(body),
                user=ADMIN,
            )
        )
        return f" {_shown(fields)} -> {answer.status}"

    async def _relabel_child(self, _: int, *where: Any) -> str | None:
        rng = where[-1]
        if (child := self._child(rng)) is None:
            return None
        labels = (self._client.peek(*child) or {})["metadata"].get("labels") or {_MARK: ""}
        patch = {"metadata": {"labels": {rng.choice(sorted(labels)): rng.choice(("other", None, "7f"))}}}
        await self._client.patch(*child, patch)
        return f"{' '.join(child)} {_shown(patch)}"

    async def _delete(self, _: int, resource: str, namespace: str, name: str, rng: random.Random) -> None:
        propagation = rng.choice(("Background", "Foreground"))
        await self._client.delete(resource, namespace, name, propagation=propagation)

    async def _orphan(self, _: int, resource: str, namespace: str, name: str, _rng: random.Random) -> None:
        await self._client.delete(resource, namespace, name, propagation="Orphan")

    async def _annotate(self, _: int, resource: str, namespace: str, name: str, rng: random.Random) -> None:
        annotations = {"seen": str(rng.getrandbits(16))}
        await self._client.patch(resource, namespace, name, {"metadata": {"annotations": annotations}})

    async def _empty_status(
        self, _: int, resource: str, namespace: str, name: str, _rng: random.Random
    ) -> None:
        await self._client.patch(resource, namespace, name, {"status": None}, subresource="status")

    async def _take_name(
        self, number: int, _: str, namespace: str, name: str, rng: random.Random
    ) -> str | None:
        child = self._child(rng)
        if child is not None and rng.random() < _REPLACED:
            # The operator has no chance to make it anew.
            resource, *place = child
            kind = self._kind_of(resource)
            if kind in _TAKERS:
                await self._client.delete(*child)
                await self._client.create(resource, place[0], _taker(kind, place[1], "away"))
                return " ".join(child)
        for source in self._operators[number].sources:
            if isinstance(source, Owns) and source.kind.gvk.kind in _TAKERS:
                taker = _taker(source.kind.gvk.kind, name, "first")
                await self._client.create(resource_of(source.kind), namespace, taker)
                return source.kind.gvk.kind
        return None

    async def _free_name(self, _: int, *where: Any) -> str | None:
        taken = self._taken("first", "away")
        if not taken:
            return None
        found = where[-1].choice(taken)
        await self._client.delete(*found)
        return " ".join(found)

    async def _hold(self, _: int, resource: str, *where: Any) -> str | None:
        """Have a finalizer of theirs on an object or a child, and perhaps delete it."""
        rng = where[-1]
        own = [where for where, _ in self._placed([resource])]
        held = rng.choice(own) if own and rng.random() < _EITHER else self._child(rng)
        if held is None:
            return None
        more = await self._with_finalizers(held, lambda there: [*there, _HELD])
        if rng.random() < _EITHER:
            await self._client.delete(*held)
            more = f"{more}, and delete it"
        return more

    async def _release_any(self, _: int, *where: Any) -> str | None:
        held = self._held("", self._resources)
        return await self._release(where[-1].choice(held)) if held else None

    async def _release(self, where: tuple[str, str, str]) -> str | None:
        return await self._with_finalizers(where, lambda there: [each for each in there if each != _HELD])

    async def _with_finalizers(
        self, where: tuple[str, str, str], made: Callable[[list[str]], list[str]]
    ) -> str | None:
        """Change the finalizers, unless another client writes the object after the read."""
        live = self._client.peek(*where)
        if live is None:
            return None
        there = live["metadata"].get("finalizers") or []
        version = live["metadata"]["resourceVersion"]
        patch = {"metadata": {"finalizers": list(dict.fromkeys(made(there))), "resourceVersion": version}}
        await self._client.patch(*where, patch)
        return f"{' '.join(where)} {_shown(patch)}"

    def _held(self, namespace: str, resources: Iterable[str]) -> list[tuple[str, str, str]]:
        return [
            where
            for where, each in self._placed(resources)
            if _HELD in (each["metadata"].get("finalizers") or ()) and namespace in {"", where[1]}
        ]

    async def release_all(self, *resources: str, namespace: str = "") -> None:
        """Remove people's finalizers from these resources or all, in a namespace or everywhere."""
        while held := self._held(namespace, resources or self._resources):
            for each in held:
                with suppress(StatusError):  # conflict: try again
                    await self._release(each)

    async def give_back(self) -> None:
        """Let go of what they hold, of names that were taken away from operators, and of invalid images.

        A fresh install would not come as far as the operators had: the pods from before an update to an image
        that cannot start keep running.
        """
        await self.release_all()
        for each in self._taken("away"):
            await self._client.delete(*each)
        for where, obj in list(self._placed(self._own)):
            spec = obj.get("spec") or {}
            invalid = [name for name in spec if name.lower().endswith("image") and not _is_image(spec[name])]
            if invalid:
                with suppress(StatusError):  # it is being deleted, or was refused
                    await self._client.patch(*where, {"spec": dict.fromkeys(invalid)})

    def _taken(self, *how: str) -> list[tuple[str, str, str]]:
        return [
            where
            for where, each in self._placed(self._owned)
            if each["metadata"].get("labels", {}).get("taken") in how
        ]

    async def _spoil_child(self, _: int, *where: Any) -> str | None:
        rng = where[-1]
        if (child := self._child(rng)) is None:
            return None
        patch = rng.choice(_SPOILT)
        await self._client.patch(*child, patch)
        return f"{' '.join(child)} {_shown(patch)}"

    async def _delete_child(self, _: int, *where: Any) -> str | None:
        if (child := self._child(where[-1])) is None:
            return None
        await self._client.delete(*child)
        return " ".join(child)

    async def _evict_pod(self, _: int, *where: Any) -> str | None:
        """Have a node evict a pod, which stays as Failed."""
        running = [each for each in self._client.list("pods") if each["status"].get("phase") == "Running"]
        if not running:
            return None
        metadata = where[-1].choice(running)["metadata"]
        patch = {"metadata": {"annotations": {EVICT: "memory"}}}
        await self._client.patch("pods", metadata["namespace"], metadata["name"], patch)
        return f"{metadata['namespace']}/{metadata['name']}"

    async def _delete_namespace(self, _: int, *_where: Any) -> str:
        namespace = NAMESPACES[-1]
        await self._client.delete("namespaces", "", namespace)
        await asyncio.sleep(15)
        await self.release_all(namespace=namespace)
        await asyncio.sleep(15)
        await self._plane.lasting(
            lambda client: client.create("namespaces", "", {"metadata": {"name": namespace}})
        )
        return f"{namespace}, and make it anew"

    def _kind_of(self, resource: str) -> str:
        sources = (source for operator in self._operators for source in operator.sources)
        return next(
            source.kind.gvk.kind
            for source in sources
            if isinstance(source, Owns) and resource_of(source.kind) == resource
        )

    def _child(self, rng: random.Random) -> tuple[str, str, str] | None:
        children = [where for where, each in self._placed(self._owned) if controller_of(each)]
        return rng.choice(children) if children else None

    def _placed(self, resources: Iterable[str]) -> Iterator[tuple[tuple[str, str, str], Object]]:
        for resource in resources:
            for each in self._client.list(resource):
                metadata = each["metadata"]
                yield (resource, str(metadata.get("namespace", "")), str(metadata["name"])), each


def marks_of_others(data: bytes) -> set[str]:
    """Return the labels, annotations and finalizers that users have added to an operator's object."""
    if not any(each.encode() in data for each in (_MARK, _HELD)):
        return set()
    metadata = orjson.loads(data)["metadata"]
    found = {
        f"{field} {_MARK}={metadata[field][_MARK]}"
        for field in ("labels", "annotations")
        if _MARK in (metadata.get(field) or ())
    }
    return found | ({f"finalizer {_HELD}"} if _HELD in (metadata.get("finalizers") or ()) else set())


def _taker(kind: str, name: str, how: str) -> Object:
    return {**_TAKERS[kind], "metadata": {"name": name, "labels": {"taken": how}}}


def _is_image(text: str) -> bool:
    try:
        ImageReference.parse(text)
    except InvalidImageName:
        return False
    return True


def _shown(value: Any) -> str:
    return orjson.dumps(value).decode()


def _spec_schema(cluster: DevCluster, operator: AnyOperator) -> Object | None:
    name = resource_of(operator.kind)
    definition = cluster.client.peek("customresourcedefinitions.apiextensions.k8s.io", "", name)
    if definition is None:
        return None
    [schema] = [
        version["schema"]["openAPIV3Schema"]
        for version in definition["spec"]["versions"]
        if version["storage"]
    ]
    found: Object | None = schema["properties"].get("spec")
    return found
