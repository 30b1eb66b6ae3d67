"""The simulated users: their actions on a cluster, with values drawn from the kinds' schemas."""

from __future__ import annotations

import asyncio
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
from manager_tools.simulation.plan import NAMES, NAMESPACES, PLANTED, Step

Object = dict[str, Any]
Place = tuple[str, str, str]
"""Resource, namespace and name."""

_WORDS = (
    *("", "a", "web", "db", "tron", "dog", "cat", "secret word", "ä b", "x" * 70),
    *("2021-04-01", "2020-02-29", "2021-04-01T00:00:00Z", "10Mi", "1Gi", "2Gi"),
    *("ann@example.com", "nginx:1.27"),
)
"""Texts that some schema may accept; the API server decides."""

_FORMATS = {"date": r"\d{4}-\d\d-\d\d", "email": r".+@.+"}
_LARGEST = 3
_UNSET = 0.6
_BEYOND = 0.03
_EDGE = 0.1
_MOST = 100
"""The largest `maximum` that users write, and the limit of the `maxItems` that they exceed."""

_ATTEMPTS = 6
"""The number of attempts to write a spec that the API server accepts."""

_EITHER = 0.5
"""The probability of each of two choices, such as a sample instead of a random spec."""

_MARK = "spoilt"
"""The users' own label and annotation."""

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
"""Fields that another field manager applies to operators' children."""

_HELD = "people.simulated/hold"
"""The users' finalizer, which keeps a deleted object until they remove it."""

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
"""Objects of other clients, whose names may conflict with children's names."""


@dataclass
class _Turn:
    """The random generator of one user action, the index of an operator, and the object to change."""

    rng: random.Random
    number: int
    place: Place


class People:
    """Simulated users; each step has its own seed, so it stays the same when a plan omits other steps."""

    def __init__(
        self, plane: ControlPlane, operators: Sequence[AnyOperator], samples: Mapping[str, Sequence[Object]]
    ) -> None:
        """Create users; half of the objects that they create have specs from `samples`, by `Kind.group`."""
        self.accepted: Counter[str] = Counter()
        """The number of accepted objects of each resource."""
        self._samples = samples
        self._plane = plane
        self._operators = operators
        self._schemas = [_spec_schema(plane.cluster, operator) for operator in operators]
        owned = (each for operator in operators for each in operator.sources if isinstance(each, Owns))
        self._kinds = {resource_of(each.kind): each.kind.gvk.kind for each in owned}
        self._owned = owned_resources(operators)
        self._own = [resource_of(each.kind) for each in operators]
        self._resources = dict.fromkeys([*self._own, *self._owned])

    @property
    def _client(self) -> LocalClient:
        return self._plane.client

    async def act(self, step: Step) -> str:
        """Do the step's action, unless it needs a child and none exists; return a line for the timeline."""
        rng = random.Random(step.draw)
        kind = self._operators[step.kind].kind
        name = f"{rng.choice(NAMES)}-{step.kind}"
        namespace = rng.choice(NAMESPACES) if kind.namespaced else ""
        place: Place | None = (resource_of(kind), namespace, name)
        said = f"{step.act}: {resource_of(kind)} {namespace}/{name}"
        try:
            if step.act.endswith(" child"):
                place = self._child(rng)
                said = " ".join((said, *(place or ())))
            if place is None:
                return said
            more = await getattr(self, f"_{step.act.replace(' ', '_')}")(_Turn(rng, step.kind, place))
        except StatusError as error:
            more = f"-> {error.code} {error.reason}"
        return f"{said} {more or ''}"

    async def _create(self, turn: _Turn) -> str:
        schema, gvk = self._schemas[turn.number], self._operators[turn.number].kind.gvk
        samples, (resource, namespace, name) = self._samples.get(f"{gvk.kind}.{gvk.group}"), turn.place
        for _ in range(_ATTEMPTS):
            obj: Object = {"metadata": {"name": name}}
            if schema is not None:
                obj["spec"] = drawn(schema, turn.rng)
            if samples and turn.rng.random() < _EITHER:
                obj["spec"] = turn.rng.choice(samples)
            try:
                await self._client.create(resource, namespace, obj)
            except StatusError as error:
                if error.code != HTTPStatus.UNPROCESSABLE_ENTITY:
                    raise
            else:
                self.accepted[resource] += 1
                return _shown(obj.get("spec"))
        return "-> nothing that is valid"

    async def _change(self, turn: _Turn) -> str | None:
        live, schema = self._client.peek(*turn.place), self._schemas[turn.number]
        if live is None or schema is None:
            return None
        return await self._patch(turn.place, {"spec": changed(live.get("spec") or {}, schema, turn.rng)})

    async def _patch(self, place: Place, patch: Object, **more: Any) -> str:
        await self._client.patch(*place, patch, **more)
        return _shown(patch)

    async def _apply(self, turn: _Turn) -> str | None:
        schema = self._schemas[turn.number]
        if schema is None:
            return None
        live = self._client.peek(*turn.place) or {}
        patch = changed(live.get("spec") or {}, schema, turn.rng)
        spec = {field: value for field, value in patch.items() if value is not None}
        return await self._apply_over(turn.place, {"spec": spec})

    async def _apply_child(self, turn: _Turn) -> str:
        return await self._apply_over(turn.place, turn.rng.choice(_APPLIED))

    async def _apply_over(self, place: Place, fields: Object) -> str:
        resource, namespace, name = place
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
        return f"{_shown(fields)} -> {answer.status}"

    async def _relabel_child(self, turn: _Turn) -> str:
        labels = (self._client.peek(*turn.place) or {})["metadata"].get("labels") or {_MARK: ""}
        label = {turn.rng.choice(sorted(labels)): turn.rng.choice(("other", None, "7f"))}
        return await self._patch(turn.place, {"metadata": {"labels": label}})

    async def _delete(self, turn: _Turn) -> None:
        propagation = turn.rng.choice(("Background", "Foreground"))
        await self._client.delete(*turn.place, propagation=propagation)

    async def _orphan(self, turn: _Turn) -> None:
        await self._client.delete(*turn.place, propagation="Orphan")

    async def _annotate(self, turn: _Turn) -> None:
        annotations = {"seen": str(turn.rng.getrandbits(16))}
        await self._patch(turn.place, {"metadata": {"annotations": annotations}})

    async def _empty_status(self, turn: _Turn) -> None:
        await self._patch(turn.place, {"status": None}, subresource="status")

    async def _take_name(self, turn: _Turn) -> str | None:
        child = self._child(turn.rng)
        if child is not None and turn.rng.random() < _EITHER:
            # Then the operator cannot create the child again.
            resource, *place = child
            kind = self._kinds[resource]
            if kind in _TAKERS:
                await self._client.delete(*child)
                await self._client.create(resource, place[0], _taker(kind, place[1], "away"))
                return " ".join(child)
        _, namespace, name = turn.place
        for source in self._operators[turn.number].sources:
            if isinstance(source, Owns) and source.kind.gvk.kind in _TAKERS:
                taker = _taker(source.kind.gvk.kind, name, "first")
                await self._client.create(resource_of(source.kind), namespace, taker)
                return source.kind.gvk.kind
        return None

    async def _free_name(self, turn: _Turn) -> str | None:
        taken = self._taken("first", "away")
        if not taken:
            return None
        found = turn.rng.choice(taken)
        await self._client.delete(*found)
        return " ".join(found)

    async def _hold(self, turn: _Turn) -> str | None:
        own = [place for place, _ in self._placed([turn.place[0]])]
        held = turn.rng.choice(own) if own and turn.rng.random() < _EITHER else self._child(turn.rng)
        if held is None:
            return None
        more = await self._with_finalizers(held, lambda there: [*there, _HELD])
        if turn.rng.random() < _EITHER:
            await self._client.delete(*held)
            more = f"{more}, and delete it"
        return more

    async def _drop_finalizer(self, turn: _Turn) -> str | None:
        held = self._held("", self._resources)
        return await self._release(turn.rng.choice(held)) if held else None

    async def _release(self, place: Place) -> str | None:
        return await self._with_finalizers(place, lambda there: [each for each in there if each != _HELD])

    async def _with_finalizers(self, place: Place, made: Callable[[list[str]], list[str]]) -> str | None:
        """Change the finalizers, unless another client writes the object after the read."""
        live = self._client.peek(*place)
        if live is None:
            return None
        there = live["metadata"].get("finalizers") or []
        version = live["metadata"]["resourceVersion"]
        metadata = {"finalizers": list(dict.fromkeys(made(there))), "resourceVersion": version}
        return f"{' '.join(place)} {await self._patch(place, {'metadata': metadata})}"

    def _held(self, namespace: str, resources: Iterable[str]) -> list[Place]:
        return [
            place
            for place, each in self._placed(resources)
            if _HELD in (each["metadata"].get("finalizers") or ()) and namespace in {"", place[1]}
        ]

    async def release_all(self, *resources: str, namespace: str = "") -> None:
        """Remove the users' finalizers from these resources; without resources, from all of them.

        `namespace` limits this to one namespace; "" means all.
        """
        while held := self._held(namespace, resources or self._resources):
            for each in held:
                with suppress(StatusError):  # conflict: try again
                    await self._release(each)

    async def give_back(self) -> None:
        """Remove the users' finalizers, the users' objects in place of deleted children, and invalid images.

        Otherwise the final state would differ from a fresh cluster. For example, with an invalid image, pods
        from before the update keep running only in the old cluster.
        """
        await self.release_all()
        for each in self._taken("away"):
            await self._client.delete(*each)
        for place, obj in list(self._placed(self._own)):
            spec = obj.get("spec") or {}
            invalid = [name for name in spec if name.lower().endswith("image") and not _is_image(spec[name])]
            if invalid:
                with suppress(StatusError):  # the object is being deleted, or the write was refused
                    await self._patch(place, {"spec": dict.fromkeys(invalid)})

    def _taken(self, *how: str) -> list[Place]:
        owned = self._placed(self._owned)
        return [place for place, each in owned if each["metadata"].get("labels", {}).get("taken") in how]

    async def _spoil_child(self, turn: _Turn) -> str:
        return await self._patch(turn.place, turn.rng.choice(_SPOILT))

    async def _delete_child(self, turn: _Turn) -> None:
        await self._client.delete(*turn.place)

    async def _evict_pod(self, turn: _Turn) -> str | None:
        pods = self._placed(["pods"])
        running = [place for place, each in pods if each["status"].get("phase") == "Running"]
        if not running:
            return None
        place = turn.rng.choice(running)
        return " ".join(place) + await self._patch(place, {"metadata": {"annotations": {EVICT: "memory"}}})

    async def _delete_namespace(self, _: _Turn) -> str:
        namespace = NAMESPACES[-1]
        await self._client.delete("namespaces", "", namespace)
        await asyncio.sleep(15)
        await self.release_all(namespace=namespace)
        await asyncio.sleep(15)
        await self._plane.lasting(
            lambda client: client.create("namespaces", "", {"metadata": {"name": namespace}})
        )
        return f"{namespace}, and make it anew"

    def _child(self, rng: random.Random) -> Place | None:
        children = [place for place, each in self._placed(self._owned) if controller_of(each)]
        return rng.choice(children) if children else None

    def _placed(self, resources: Iterable[str]) -> Iterator[tuple[Place, Object]]:
        for resource in resources:
            for each in self._client.list(resource):
                metadata = each["metadata"]
                yield (resource, str(metadata.get("namespace", "")), str(metadata["name"])), each


def marks_of_others(data: bytes) -> set[str]:
    """Return the labels, annotations and finalizers that simulated users have added to an object."""
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


def drawn(schema: Mapping[str, Any], rng: random.Random) -> Any:
    """Draw a value that the schema allows or, sometimes, a value that it refuses."""
    values: Sequence[Any] = schema.get("enum") or ()
    if rng.random() < _BEYOND:
        values = (None, "", -1, 2**31, [], {}, "x" * 300)
    elif rng.random() < _EDGE:
        values = edges(schema) or values
    if values:
        return rng.choice(values)
    match schema.get("type"):
        case "object":
            return _object(schema, rng)
        case "array":
            return [drawn(schema["items"], rng) for _ in range(rng.randrange(_LARGEST))]
        case "boolean":
            return rng.random() < 0.5  # noqa: PLR2004 - either
        case "integer" | "number":
            most = schema.get("maximum", math.inf)
            least = schema.get("minimum", 0 if most >= 0 else most - _LARGEST)
            return rng.randint(int(least), int(min(least + _LARGEST, most)))
        case "string":
            return _text(schema, rng)
    return rng.choice(_WORDS)  # an int or a string


def edges(schema: Mapping[str, Any]) -> list[Any]:
    """Return values at a schema's bounds, and the nearest values outside; large bounds may be left out."""
    if values := schema.get("enum"):
        return [*values, f"not {values[0]}"]
    kind, found = schema.get("type"), list[Any]()
    if kind in {"integer", "number"}:
        if "minimum" in schema:
            found += [schema["minimum"], schema["minimum"] - 1]
        if "maximum" in schema:
            found += [each for each in (schema["maximum"],) if each <= _MOST] + [schema["maximum"] + 1]
    elif kind == "string" and "pattern" not in schema:
        if least := schema.get("minLength", 0):
            found += ["x" * least, "x" * (least - 1)]
        if "maxLength" in schema:
            found += ["x" * schema["maxLength"], "x" * (schema["maxLength"] + 1)]
    elif kind == "array" and schema.get("maxItems", _MOST) < _MOST:
        item = next(iter(edges(schema["items"])), "x")
        found += [[], [item] * (schema["maxItems"] + 1)]
    return found


def changed(spec: Object, schema: Mapping[str, Any], rng: random.Random) -> Object:
    """Draw a merge patch that changes or removes one field of the spec."""
    name = rng.choice(sorted(schema.get("properties") or {"": None}))
    if not name:
        return {}
    inner = schema["properties"][name]
    if name in spec and name not in schema.get("required", ()) and rng.random() > _UNSET:
        return {name: None}
    if inner.get("type") == "object" and "properties" in inner and isinstance(spec.get(name), dict):
        return {name: changed(spec[name], inner, rng)}
    return {name: _drawn_for(name, inner, rng)}


def _drawn_for(name: str, schema: Mapping[str, Any], rng: random.Random) -> Any:
    """Draw a value for a field of this name; a password contains a marker that shows where it leaks."""
    value, secret = drawn(schema, rng), name.endswith("password") or schema.get("format") == "password"
    if secret and value and isinstance(value, str) and value not in edges(schema):
        return (PLANTED + value)[: max(len(value), len(PLANTED))]
    return value


def _object(schema: Mapping[str, Any], rng: random.Random) -> Object:
    required = schema.get("required", ())
    made = {
        name: _drawn_for(name, inner, rng)
        for name, inner in sorted((schema.get("properties") or {}).items())
        if name in required or rng.random() > _UNSET
    }
    if not made and "additionalProperties" in schema:
        made = {rng.choice(NAMES): drawn(schema["additionalProperties"], rng)}
    return made


def _text(schema: Mapping[str, Any], rng: random.Random) -> str:
    fitting = _fitting(schema)
    return rng.choice(fitting or _WORDS)


def _fitting(schema: Mapping[str, Any]) -> Sequence[str]:
    least, most = schema.get("minLength", 0), schema.get("maxLength", 2**31)
    pattern = schema.get("pattern")
    words = [word for word in _WORDS if least <= len(word) <= most]
    if (form := schema.get("format")) in _FORMATS:
        words = [word for word in words if re.fullmatch(_FORMATS[form], word)]
    if pattern is None:
        return words
    try:
        return [word for word in words if re.search(pattern, word)]
    except re.error:
        return words
