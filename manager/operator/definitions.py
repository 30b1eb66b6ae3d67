"""Comparison of the installed CustomResourceDefinitions with the program's declarations, at each change."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, get_args, get_origin

from manager.api import ApiModel, ObjectMeta, Resource, crd_options, is_crd
from manager.api.rights import RbacRule
from manager.controller import Source, WorkQueue
from manager.kube.decoding import json_object, watch_events
from manager.kube.errors import Forbidden, Gone, KubeError, NotFound
from manager.kube.rest_mapping import RestMapper
from manager.kube.transport import Transport
from manager.operator.conditions import writes_status
from manager.operator.declaration import bare
from manager.telemetry.logs import get_logger
from manager.telemetry.metrics import Metrics
from manager.util.backoff import Backoff

_GROUP, _RESOURCE = "apiextensions.k8s.io", "customresourcedefinitions"
_PATH = f"/apis/{_GROUP}/v1/{_RESOURCE}"
_WATCH_SECONDS = 300
_FORBIDDEN_PAUSE = 60.0
"""Seconds until the next attempt to read a CustomResourceDefinition after the answer 403 or 404."""

_OF_THE_SERVER = frozenset({"apiVersion", "kind", "metadata"})

_log = get_logger("definitions")


class Difference(NamedTuple):
    """A difference between an installed CustomResourceDefinition and the program."""

    text: str
    prevents_work: bool = False
    """Whether the difference makes every reconcile of the kind fail."""


def definition_rights(kinds: Iterable[type[Resource]]) -> list[RbacRule]:
    """Return the rights to read the CustomResourceDefinitions of the kinds."""
    names = tuple(dict.fromkeys(_name(kind) for kind in kinds if is_crd(kind)))
    return [RbacRule((_GROUP,), (_RESOURCE,), ("list", "watch"), names)] if names else []


def differences(definition: Mapping[str, Any] | None, kinds: Sequence[type[Resource]]) -> list[Difference]:
    """Compare a CRD (None: not installed) with a kind's versions; the last version is the operator's own."""
    if definition is None:
        return [Difference("is not installed", prevents_work=True)]
    spec = definition.get("spec") or {}
    versions = {each.get("name"): each for each in spec.get("versions") or ()}
    found: list[Difference] = []
    for kind in kinds:
        name, is_own = kind.gvk.version, kind is kinds[-1]
        version = versions.get(name)
        if version is None or not version.get("served"):
            if crd_options(kind).served:
                found.append(Difference(f"does not serve version {name}", prevents_work=is_own))
            continue
        found += _of_version(version, kind, is_own=is_own)
    strategy = (spec.get("conversion") or {}).get("strategy") or "None"
    if len(kinds) > 1 and strategy != "Webhook":
        found.append(Difference(f"has the conversion strategy {strategy} instead of the program's webhook"))
    scope = "Namespaced" if kinds[-1].namespaced else "Cluster"
    if spec.get("scope") not in (None, scope):
        found.append(Difference(f"has the scope {spec['scope']} instead of {scope}", prevents_work=True))
    return found


def _of_version(version: Mapping[str, Any], kind: type[Resource], *, is_own: bool) -> Iterator[Difference]:
    name, options = kind.gvk.version, crd_options(kind)
    if bool(version.get("storage")) is not options.storage:
        stored = "is" if version.get("storage") else "is not"
        yield Difference(f"version {name} {stored} the storage version")
    subresources = version.get("subresources") or {}
    if options.status and "status" not in subresources:
        yield Difference(
            f"version {name} has no status subresource", prevents_work=is_own and writes_status(kind)
        )
    if options.scale is not None and "scale" not in subresources:
        yield Difference(f"version {name} has no scale subresource")
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    for path in _dropped(kind, schema, ""):
        yield Difference(f"version {name} has no field {path}: the API server drops it")


def _dropped(annotation: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the paths of a model's fields that the schema lacks, and that the server therefore drops."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    model = bare(annotation)
    if get_origin(model) is list and isinstance(schema.get("items"), Mapping):
        yield from _dropped(get_args(model)[0], schema["items"], f"{path}[]")
    elif get_origin(model) is dict and isinstance(schema.get("additionalProperties"), Mapping):
        yield from _dropped(get_args(model)[1], schema["additionalProperties"], f"{path}{{}}")
    elif isinstance(model, type) and issubclass(model, ApiModel):
        properties, open_ended = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, each in model.model_fields.items():
            wire = each.alias or name
            if not path and wire in _OF_THE_SERVER:
                continue
            if issubclass(model, ObjectMeta) and wire not in _metadata_of_templates():
                continue
            if wire in properties:
                yield from _dropped(each.annotation, properties[wire], f"{path}.{wire}")
            elif not open_ended:
                yield f"{path}.{wire}"


@cache
def _metadata_of_templates() -> frozenset[str]:
    """Return the names of the metadata fields in the schema of a template, such as a pod template."""
    return frozenset(ObjectMeta.model_json_schema()["properties"])


class Definition(Source):
    """A CustomResourceDefinition; its kind's controllers pause while a difference prevents their work."""

    def __init__(self, kinds: Sequence[type[Resource]]) -> None:
        self.name = _name(kinds[-1])
        self.kinds = tuple(kinds)
        self.found: Sequence[Difference] = ()
        self._open = asyncio.Event()
        self._queues: list[WorkQueue[Any]] = []
        self._pauses = False

    async def wait_synced(self) -> None:
        """Wait until the CustomResourceDefinition allows the controllers to work, or cannot be read."""
        await self._open.wait()

    async def run(self, queue: WorkQueue[Any]) -> None:
        """Pause the queue while a difference of the CustomResourceDefinition prevents work."""
        self._queues.append(queue)
        if self._pauses:
            queue.paused = True
        await asyncio.Event().wait()

    def note(self, found: Sequence[Difference]) -> None:
        """Log new differences, and pause or resume the controllers."""
        before, self.found = self.found, found
        for each in found:
            if each not in before:
                effect = "the controller waits" if each.prevents_work else "the controller works"
                about = {"difference": each.text, "effect": effect}
                _log.warning("the cluster's CRD does not match the program", definition=self.name, **about)
        if before and not found:
            _log.info("the cluster's CRD now matches the program", definition=self.name)
        fatal = [f"the definition {self.name} {each.text}" for each in found if each.prevents_work]
        self.problem = "; ".join(fatal) or None
        if not fatal:
            self._open.set()
        pauses = bool(fatal) and self._open.is_set()
        if pauses is not self._pauses:  # only a change counts: a pause from the console stays
            self._pauses = pauses
            for queue in self._queues:
                queue.paused = pauses


class Definitions:
    """Observer of the CustomResourceDefinitions of the operators' own kinds."""

    def __init__(
        self, transport: Transport, mapper: RestMapper, metrics: Metrics, rng: random.Random
    ) -> None:
        self._transport = transport
        self._rng = rng
        self._mapper = mapper
        self._metrics = metrics
        self._followed: dict[str, Definition] = {}

    def follow(self, kinds: Sequence[type[Resource]]) -> Definition | None:
        """Watch the CustomResourceDefinition of a kind in these versions; None if others define the kind."""
        return self._followed.setdefault(_name(kinds[-1]), Definition(kinds)) if kinds else None

    def problem(self) -> str | None:
        """Return a text for the readiness check about the CustomResourceDefinitions that prevent work."""
        return self._differences(prevents_work=True)

    def detail(self) -> str | None:
        """Return a text for the readiness check about the differences that do not prevent work."""
        return self._differences(prevents_work=False)

    def _differences(self, *, prevents_work: bool) -> str | None:
        found = ((followed.name, each) for followed in self._followed.values() for each in followed.found)
        told = (f"{name} {each.text}" for name, each in found if each.prevents_work is prevents_work)
        return "; ".join(told) or None

    async def run(self) -> None:
        """Compare each CustomResourceDefinition, now and at each change, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for each in self._followed.values():
                group.create_task(self._follow(each), name=f"definition-{each.name}")

    async def _follow(self, followed: Definition) -> None:
        backoff, is_readable = Backoff(base=1.0, cap=30.0, rng=self._rng), True
        query = {"fieldSelector": f"metadata.name={followed.name}"}
        while True:
            try:
                answer = await self._transport.request("GET", _PATH, query=query)
                listed = json_object(answer, "a list of definitions")
                self._judge(followed, next(iter(listed.get("items") or ()), None))
                is_readable = True
                backoff.reset()
                await self._watch(followed, query, str(listed["metadata"]["resourceVersion"]))
            except (Forbidden, NotFound) as error:
                if is_readable:
                    is_readable = False
                    _log.info(
                        "cannot read a CRD, so it is not compared with the program",
                        definition=followed.name,
                        error=str(error),
                    )
                self._note(followed, [])
                await asyncio.sleep(_FORBIDDEN_PAUSE)
            except Gone:
                continue
            except KubeError as error:
                _log.debug("cannot watch a CRD", definition=followed.name, error=str(error))
                await asyncio.sleep(backoff.next())

    async def _watch(self, followed: Definition, selector: Mapping[str, str], version: str) -> None:
        query = {**selector, "watch": "1", "resourceVersion": version, "timeoutSeconds": str(_WATCH_SECONDS)}
        async with self._transport.stream(_PATH, query=query, idle_timeout=_WATCH_SECONDS + 30) as chunks:
            async for event in watch_events(chunks):
                if event.type != "BOOKMARK":
                    definition = json_object(bytes(event.object), "a definition")
                    self._judge(followed, None if event.type == "DELETED" else definition)

    def _judge(self, followed: Definition, definition: Mapping[str, Any] | None) -> None:
        for kind in followed.kinds:
            self._mapper.forget(kind.gvk)
        self._note(followed, differences(definition, followed.kinds))

    def _note(self, followed: Definition, found: Sequence[Difference]) -> None:
        self._metrics.definition_differences.labels(followed.name).set(len(found))
        followed.note(found)


def _name(kind: type[Resource]) -> str:
    return f"{kind.plural}.{kind.gvk.group}"
